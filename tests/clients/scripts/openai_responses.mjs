/** The npm package `openai` on the Responses API. */
import OpenAI from 'openai'
import { zodTextFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { API_KEY, BASE_URL, MODEL, SLOW_MODEL, picture, provokedErrors, report, scenario, tools } from './report.mjs'

const client = new OpenAI({ baseURL: `${BASE_URL}/v1`, apiKey: API_KEY, maxRetries: 0 })
const usage = (counts) => ({ input: counts?.input_tokens, output: counts?.output_tokens })
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false }
const toolDefinitions = (names) => names.map((name) => ({ type: 'function', name, description: tools[name].description, parameters, strict: true }))
const Person = z.object({ name: z.string(), age: z.number().int() })

const unstreamed = (body) => client.responses.create({ model: MODEL, ...body })
const streamed = (body) => client.responses.stream({ model: MODEL, ...body }).finalResponse()

async function toolLoop(send, text, names, more = {}) {
  const called = []
  let input = [{ role: 'user', content: text }]
  let reasoning = ''
  for (let turn = 0; turn < 4; turn++) {
    const answer = await send({ input, tools: toolDefinitions(names), store: false, ...more })
    const calls = answer.output.filter(({ type }) => type === 'function_call')
    reasoning += summaries(answer)
    if (!calls.length) return { called, text: answer.output_text, usage: usage(answer.usage), reasoning }
    for (const call of calls) called.push({ name: call.name, arguments: JSON.parse(call.arguments) })
    const results = calls.map(({ call_id, name }) => ({ type: 'function_call_output', call_id, output: tools[name].run() }))
    input = [...input, ...answer.output, ...results]
  }
}

const summaries = ({ output }) =>
  output
    .filter(({ type }) => type === 'reasoning')
    .flatMap(({ summary, content }) => [...(summary ?? []), ...(content ?? [])])
    .map(({ text }) => text)
    .join('')

async function thinking(send) {
  const more = { reasoning: { effort: 'low', summary: 'auto' }, include: ['reasoning.encrypted_content'], store: false }
  const messages = [{ role: 'user', content: scenario.think }]
  const first = await send({ input: messages, ...more })
  const second = await send({ input: [...messages, ...first.output, { role: 'user', content: scenario.again }], ...more })
  return { reasoning: summaries(first), text: first.output_text, again: second.output_text }
}

const withReasoning = { reasoning: { effort: 'low', summary: 'auto' }, include: ['reasoning.encrypted_content'] }

await report({
  async text() {
    const request = client.responses.create({ model: MODEL, instructions: scenario.system, input: scenario.hello })
    const { data, response } = await request.withResponse()
    return { text: data.output_text, finish: data.status, usage: usage(data.usage), id: response.headers.get('x-request-id') }
  },
  async stream() {
    let pieces = 0
    const stream = client.responses.stream({ model: MODEL, input: scenario.hello })
    stream.on('response.output_text.delta', () => (pieces += 1))
    const answer = await stream.finalResponse()
    return { text: answer.output_text, finish: answer.status, usage: usage(answer.usage), pieces }
  },
  tools: () => toolLoop(unstreamed, scenario.weather, ['get_weather']),
  tools_streamed: () => toolLoop(streamed, scenario.weather, ['get_weather']),
  parallel: () => toolLoop(unstreamed, scenario.weather_and_time, ['get_weather', 'get_time']),
  parallel_streamed: () => toolLoop(streamed, scenario.weather_and_time, ['get_weather', 'get_time']),
  async structured() {
    const text = { format: zodTextFormat(Person, 'person') }
    return (await client.responses.parse({ model: MODEL, input: scenario.person, text })).output_parsed
  },
  async structured_streamed() {
    const text = { format: zodTextFormat(Person, 'person') }
    return (await client.responses.stream({ model: MODEL, input: scenario.person, text }).finalResponse()).output_parsed
  },
  reasoning: () => thinking(unstreamed),
  reasoning_streamed: () => thinking(streamed),
  reasoning_over_tools: () => toolLoop(unstreamed, scenario.weather, ['get_weather'], withReasoning),
  reasoning_over_tools_streamed: () => toolLoop(streamed, scenario.weather, ['get_weather'], withReasoning),
  async stored() {
    const first = await unstreamed({ input: scenario.hello })
    const second = await unstreamed({ input: scenario.again, previous_response_id: first.id })
    const found = await client.responses.retrieve(first.id)
    return { text: second.output_text, found: found.output_text === first.output_text }
  },
  async image() {
    const content = [
      { type: 'input_text', text: scenario.picture },
      { type: 'input_image', image_url: picture, detail: 'auto' },
    ]
    return { text: (await unstreamed({ input: [{ role: 'user', content }] })).output_text }
  },
  errors: () =>
    provokedErrors(
      ({ key = API_KEY, ...fields }) =>
        client.withOptions({ apiKey: key }).responses.create({ model: MODEL, input: scenario.hello, ...fields }),
      (error) => ({ class: error.constructor.name, status: error.status, message: error.message, id: error.requestID }),
    ),
  async abort() {
    let pieces = 0
    const stream = await client.responses.create({ model: SLOW_MODEL, input: scenario.long, stream: true })
    for await (const event of stream) {
      if (event.type === 'response.output_text.delta' && ++pieces === 2) stream.controller.abort()
    }
    return { pieces }
  },
})
