/** The npm package `openai` on chat completions. */
import OpenAI from 'openai'
import { zodResponseFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { API_KEY, BASE_URL, EMBEDDING_MODEL, MODEL, SLOW_MODEL, picture, provokedErrors, report, scenario, tools } from './report.mjs'

const client = new OpenAI({ baseURL: `${BASE_URL}/v1`, apiKey: API_KEY, maxRetries: 0 })
const userMessages = (text) => [{ role: 'user', content: text }]
const usage = (counts) => ({ input: counts?.prompt_tokens, output: counts?.completion_tokens })
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false }
const toolDefinitions = (names) =>
  names.map((name) => ({ type: 'function', function: { name, description: tools[name].description, parameters, strict: true } }))
const runnable = (names, called) =>
  names.map((name) => ({
    type: 'function',
    function: {
      name,
      description: tools[name].description,
      parameters,
      parse: JSON.parse,
      function: (input) => {
        called.push({ name, arguments: input })
        return tools[name].run()
      },
    },
  }))
const Person = z.object({ name: z.string(), age: z.number().int() })

async function toolLoop(stream, text, names) {
  const called = []
  const streaming = stream && { stream, stream_options: { include_usage: true } }
  const runner = client.chat.completions.runTools({ model: MODEL, messages: userMessages(text), tools: runnable(names, called), ...streaming })
  return { called, text: await runner.finalContent(), usage: usage(await runner.totalUsage()) }
}

async function thinking(send) {
  const first = await send(userMessages(scenario.think))
  const { message } = first.choices[0]
  const second = await send([...userMessages(scenario.think), message, ...userMessages(scenario.again)])
  return { reasoning: first.reasoning ?? message.reasoning_content, text: message.content, again: second.choices[0].message.content }
}

async function thinkingOverTools(send) {
  const messages = userMessages(scenario.weather)
  const first = await send(messages)
  const { message } = first.choices[0]
  const results = message.tool_calls.map((call) => ({ role: 'tool', tool_call_id: call.id, content: scenario.sunny }))
  const second = await send([...messages, message, ...results])
  return { reasoning: first.reasoning ?? message.reasoning_content, calls: message.tool_calls.length, text: second.choices[0].message.content }
}

const unstreamed = (more) => (messages) => client.chat.completions.create({ model: MODEL, messages, reasoning_effort: 'low', ...more })
const streamed = (more) => async (messages) => {
  const stream = client.chat.completions.stream({ model: MODEL, messages, reasoning_effort: 'low', ...more })
  let reasoning = ''
  stream.on('chunk', ({ choices }) => (reasoning += choices[0]?.delta.reasoning_content ?? ''))
  // The SDK's own snapshot keeps only the last piece of an unknown field.
  return { ...(await stream.finalChatCompletion()), reasoning }
}

await report({
  async text() {
    const messages = [{ role: 'system', content: scenario.system }, ...userMessages(scenario.hello)]
    const { data, response } = await client.chat.completions.create({ model: MODEL, messages }).withResponse()
    const [{ message, finish_reason }] = data.choices
    return { text: message.content, finish: finish_reason, usage: usage(data.usage), id: response.headers.get('x-request-id') }
  },
  async stream() {
    let pieces = 0
    const messages = userMessages(scenario.hello)
    const stream = client.chat.completions.stream({ model: MODEL, messages, stream_options: { include_usage: true } })
    stream.on('content', () => (pieces += 1))
    const { choices, usage: counts } = await stream.finalChatCompletion()
    return { text: choices[0].message.content, finish: choices[0].finish_reason, usage: usage(counts), pieces }
  },
  tools: () => toolLoop(false, scenario.weather, ['get_weather']),
  tools_streamed: () => toolLoop(true, scenario.weather, ['get_weather']),
  parallel: () => toolLoop(false, scenario.weather_and_time, ['get_weather', 'get_time']),
  parallel_streamed: () => toolLoop(true, scenario.weather_and_time, ['get_weather', 'get_time']),
  async structured() {
    const response_format = zodResponseFormat(Person, 'person')
    const answer = await client.chat.completions.parse({ model: MODEL, messages: userMessages(scenario.person), response_format })
    return answer.choices[0].message.parsed
  },
  async structured_streamed() {
    const response_format = zodResponseFormat(Person, 'person')
    const stream = client.chat.completions.stream({ model: MODEL, messages: userMessages(scenario.person), response_format })
    return (await stream.finalChatCompletion()).choices[0].message.parsed
  },
  reasoning: () => thinking(unstreamed({})),
  reasoning_streamed: () => thinking(streamed({})),
  reasoning_over_tools: () => thinkingOverTools(unstreamed({ tools: toolDefinitions(['get_weather']) })),
  reasoning_over_tools_streamed: () => thinkingOverTools(streamed({ tools: toolDefinitions(['get_weather']) })),
  async image() {
    const content = [
      { type: 'text', text: scenario.picture },
      { type: 'image_url', image_url: { url: picture } },
    ]
    const answer = await client.chat.completions.create({ model: MODEL, messages: [{ role: 'user', content }] })
    return { text: answer.choices[0].message.content }
  },
  errors: () =>
    provokedErrors(
      ({ key = API_KEY, ...fields }) =>
        client.withOptions({ apiKey: key }).chat.completions.create({ model: MODEL, messages: userMessages(scenario.hello), ...fields }),
      (error) => ({ class: error.constructor.name, status: error.status, message: error.message, id: error.requestID }),
    ),
  async stream_error() {
    try {
      await client.chat.completions.stream({ model: 'no-such-model', messages: userMessages(scenario.hello) }).finalContent()
    } catch (error) {
      return { class: error.constructor.name, status: error.status, message: error.message }
    }
  },
  async embeddings() {
    const { data, usage: counts } = await client.embeddings.create({ model: EMBEDDING_MODEL, input: ['one', 'two'] })
    return { lengths: data.map(({ embedding }) => embedding.length), input: counts.prompt_tokens }
  },
  async models() {
    const listed = []
    for await (const model of client.models.list()) listed.push(model.id)
    return listed
  },
  async completions() {
    const answer = await client.completions.create({ model: MODEL, prompt: scenario.hello, max_tokens: 20 })
    return { text: answer.choices[0].text, usage: usage(answer.usage) }
  },
  async abort() {
    let pieces = 0
    const stream = await client.chat.completions.create({ model: SLOW_MODEL, messages: userMessages(scenario.long), stream: true })
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta.content && ++pieces === 2) stream.controller.abort()
    }
    return { pieces }
  },
})
