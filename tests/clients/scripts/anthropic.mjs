/** The npm package `@anthropic-ai/sdk`. */
import Anthropic from '@anthropic-ai/sdk'
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod'
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod'
import { z } from 'zod'
import { API_KEY, BASE_URL, MODEL, SLOW_MODEL, provokedErrors, report, scenario, tools } from './report.mjs'

const client = new Anthropic({ baseURL: BASE_URL, apiKey: API_KEY, authToken: null, maxRetries: 0 })
const userMessages = (text) => [{ role: 'user', content: text }]
const usage = (counts) => ({ input: counts?.input_tokens, output: counts?.output_tokens })
const textOf = ({ content }) => content.map((block) => (block.type === 'text' ? block.text : '')).join('')
const thinkingOf = ({ content }) => content.map((block) => (block.type === 'thinking' ? block.thinking : '')).join('')
const input_schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const toolDefinitions = (names) => names.map((name) => ({ name, description: tools[name].description, input_schema }))
const Person = z.object({ name: z.string(), age: z.number().int() })
const basic = { model: MODEL, max_tokens: 4000 }
const withThinking = { thinking: { type: 'enabled', budget_tokens: 1024 } }

async function toolLoop(stream, text, names) {
  const called = []
  const runnable = names.map((name) =>
    betaZodTool({
      name,
      description: tools[name].description,
      inputSchema: z.object({ city: z.string() }),
      run: (input) => {
        called.push({ name, arguments: input })
        return tools[name].run()
      },
    }),
  )
  const runner = client.beta.messages.toolRunner({ ...basic, messages: userMessages(text), tools: runnable, stream })
  if (stream) for await (const each of runner) await each.finalMessage()
  const answer = await runner.runUntilDone()
  return { called, text: textOf(answer), usage: usage(answer.usage) }
}

const unstreamed = (more) => (messages) => client.messages.create({ ...basic, ...withThinking, ...more, messages })
const streamed = (more) => (messages) => client.messages.stream({ ...basic, ...withThinking, ...more, messages }).finalMessage()

async function thinking(send) {
  const first = await send(userMessages(scenario.think))
  const second = await send([...userMessages(scenario.think), { role: 'assistant', content: first.content }, ...userMessages(scenario.again)])
  const signed = first.content.filter(({ type }) => type === 'thinking').every(({ signature }) => signature)
  return { reasoning: thinkingOf(first), text: textOf(first), again: textOf(second), signed }
}

async function thinkingOverTools(send) {
  const first = await send(userMessages(scenario.weather))
  const calls = first.content.filter(({ type }) => type === 'tool_use')
  const results = calls.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: scenario.sunny }))
  const turns = [...userMessages(scenario.weather), { role: 'assistant', content: first.content }, { role: 'user', content: results }]
  return { reasoning: thinkingOf(first), calls: calls.length, text: textOf(await send(turns)) }
}

await report({
  async text() {
    const request = client.messages.create({ ...basic, system: scenario.system, messages: userMessages(scenario.hello) })
    const { data, request_id } = await request.withResponse()
    return { text: textOf(data), finish: data.stop_reason, usage: usage(data.usage), id: request_id }
  },
  async stream() {
    let pieces = 0
    const stream = client.messages.stream({ ...basic, messages: userMessages(scenario.hello) }).on('text', () => (pieces += 1))
    const answer = await stream.finalMessage()
    return { text: textOf(answer), finish: answer.stop_reason, usage: usage(answer.usage), pieces }
  },
  tools: () => toolLoop(false, scenario.weather, ['get_weather']),
  tools_streamed: () => toolLoop(true, scenario.weather, ['get_weather']),
  parallel: () => toolLoop(false, scenario.weather_and_time, ['get_weather', 'get_time']),
  parallel_streamed: () => toolLoop(true, scenario.weather_and_time, ['get_weather', 'get_time']),
  async structured() {
    const output_config = { format: zodOutputFormat(Person) }
    return (await client.messages.parse({ ...basic, messages: userMessages(scenario.person), output_config })).parsed_output
  },
  async structured_streamed() {
    const output_config = { format: zodOutputFormat(Person) }
    const stream = client.messages.stream({ ...basic, messages: userMessages(scenario.person), output_config })
    return (await stream.finalMessage()).parsed_output
  },
  reasoning: () => thinking(unstreamed({})),
  reasoning_streamed: () => thinking(streamed({})),
  reasoning_over_tools: () => thinkingOverTools(unstreamed({ tools: toolDefinitions(['get_weather']) })),
  reasoning_over_tools_streamed: () => thinkingOverTools(streamed({ tools: toolDefinitions(['get_weather']) })),
  async image() {
    const source = { type: 'base64', media_type: 'image/png', data: scenario.png }
    const content = [
      { type: 'image', source },
      { type: 'text', text: scenario.picture },
    ]
    return { text: textOf(await client.messages.create({ ...basic, messages: [{ role: 'user', content }] })) }
  },
  errors: () =>
    provokedErrors(
      ({ key = API_KEY, ...fields }) => client.withOptions({ apiKey: key }).messages.create({ ...basic, messages: userMessages(scenario.hello), ...fields }),
      (error) => ({ class: error.constructor.name, status: error.status, message: error.message, id: error.requestID }),
    ),
  async count_tokens() {
    return { input: (await client.messages.countTokens({ model: MODEL, messages: userMessages(scenario.hello) })).input_tokens }
  },
  async models() {
    const listed = []
    for await (const model of client.models.list()) listed.push(model.id)
    return listed
  },
  async abort() {
    let pieces = 0
    const stream = client.messages.stream({ ...basic, model: SLOW_MODEL, messages: userMessages(scenario.long) })
    stream.on('text', () => ++pieces === 2 && stream.abort())
    await stream.done().catch((error) => {
      if (error.constructor.name !== 'APIUserAbortError') throw error
    })
    return { pieces }
  },
})
