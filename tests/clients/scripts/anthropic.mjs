/** The npm package `@anthropic-ai/sdk`. */
import Anthropic from '@anthropic-ai/sdk'
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod'
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod'
import { z } from 'zod'
import { API_KEY, BASE_URL, MODEL, SLOW_MODEL, refusals, report, scenario, tools } from './report.mjs'

const client = new Anthropic({ baseURL: BASE_URL, apiKey: API_KEY, authToken: null, maxRetries: 0 })
const asking = (text) => [{ role: 'user', content: text }]
const usage = (told) => ({ input: told?.input_tokens, output: told?.output_tokens })
const words = ({ content }) => content.map((block) => (block.type === 'text' ? block.text : '')).join('')
const thoughts = ({ content }) => content.map((block) => (block.type === 'thinking' ? block.thinking : '')).join('')
const input_schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const offered = (names) => names.map((name) => ({ name, description: tools[name].description, input_schema }))
const Person = z.object({ name: z.string(), age: z.number().int() })
const basic = { model: MODEL, max_tokens: 4000 }
const considered = { thinking: { type: 'enabled', budget_tokens: 1024 } }

async function loop(stream, text, names) {
  const called = []
  const runnable = names.map((name) =>
    betaZodTool({
      name,
      description: tools[name].description,
      inputSchema: z.object({ city: z.string() }),
      run: (given) => {
        called.push({ name, arguments: given })
        return tools[name].run()
      },
    }),
  )
  const runner = client.beta.messages.toolRunner({ ...basic, messages: asking(text), tools: runnable, stream })
  if (stream) for await (const each of runner) await each.finalMessage()
  const answer = await runner.runUntilDone()
  return { called, text: words(answer), usage: usage(answer.usage) }
}

const whole = (more) => (messages) => client.messages.create({ ...basic, ...considered, ...more, messages })
const streamed = (more) => (messages) => client.messages.stream({ ...basic, ...considered, ...more, messages }).finalMessage()

async function thinking(ask) {
  const first = await ask(asking(scenario.think))
  const second = await ask([...asking(scenario.think), { role: 'assistant', content: first.content }, ...asking(scenario.again)])
  const signed = first.content.filter(({ type }) => type === 'thinking').every(({ signature }) => signature)
  return { reasoning: thoughts(first), text: words(first), again: words(second), signed }
}

async function thinkingOverTools(ask) {
  const first = await ask(asking(scenario.weather))
  const calls = first.content.filter(({ type }) => type === 'tool_use')
  const results = calls.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: scenario.sunny }))
  const turns = [...asking(scenario.weather), { role: 'assistant', content: first.content }, { role: 'user', content: results }]
  return { reasoning: thoughts(first), calls: calls.length, text: words(await ask(turns)) }
}

await report({
  async text() {
    const request = client.messages.create({ ...basic, system: scenario.system, messages: asking(scenario.hello) })
    const { data, request_id } = await request.withResponse()
    return { text: words(data), finish: data.stop_reason, usage: usage(data.usage), id: request_id }
  },
  async stream() {
    let pieces = 0
    const stream = client.messages.stream({ ...basic, messages: asking(scenario.hello) }).on('text', () => (pieces += 1))
    const answer = await stream.finalMessage()
    return { text: words(answer), finish: answer.stop_reason, usage: usage(answer.usage), pieces }
  },
  tools: () => loop(false, scenario.weather, ['get_weather']),
  tools_streamed: () => loop(true, scenario.weather, ['get_weather']),
  parallel: () => loop(false, scenario.weather_and_time, ['get_weather', 'get_time']),
  parallel_streamed: () => loop(true, scenario.weather_and_time, ['get_weather', 'get_time']),
  async structured() {
    const output_config = { format: zodOutputFormat(Person) }
    return (await client.messages.parse({ ...basic, messages: asking(scenario.person), output_config })).parsed_output
  },
  async structured_streamed() {
    const output_config = { format: zodOutputFormat(Person) }
    const stream = client.messages.stream({ ...basic, messages: asking(scenario.person), output_config })
    return (await stream.finalMessage()).parsed_output
  },
  reasoning: () => thinking(whole({})),
  reasoning_streamed: () => thinking(streamed({})),
  reasoning_over_tools: () => thinkingOverTools(whole({ tools: offered(['get_weather']) })),
  reasoning_over_tools_streamed: () => thinkingOverTools(streamed({ tools: offered(['get_weather']) })),
  async image() {
    const source = { type: 'base64', media_type: 'image/png', data: scenario.png }
    const content = [
      { type: 'image', source },
      { type: 'text', text: scenario.picture },
    ]
    return { text: words(await client.messages.create({ ...basic, messages: [{ role: 'user', content }] })) }
  },
  errors: () =>
    refusals(
      ({ key = API_KEY, ...how }) => client.withOptions({ apiKey: key }).messages.create({ ...basic, messages: asking(scenario.hello), ...how }),
      (error) => ({ class: error.constructor.name, status: error.status, message: error.message, id: error.requestID }),
    ),
  async count_tokens() {
    return { input: (await client.messages.countTokens({ model: MODEL, messages: asking(scenario.hello) })).input_tokens }
  },
  async models() {
    const listed = []
    for await (const model of client.models.list()) listed.push(model.id)
    return listed
  },
  async abort() {
    let pieces = 0
    const stream = client.messages.stream({ ...basic, model: SLOW_MODEL, messages: asking(scenario.long) })
    stream.on('text', () => ++pieces === 2 && stream.abort())
    await stream.done().catch((error) => {
      if (error.constructor.name !== 'APIUserAbortError') throw error
    })
    return { pieces }
  },
})
