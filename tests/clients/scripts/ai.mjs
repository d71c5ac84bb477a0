/** The npm package `ai` with the provider that SURFACE names. */
import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { embedMany, generateObject, generateText, jsonSchema, stepCountIs, streamObject, streamText, tool } from 'ai'
import { z } from 'zod'
import { API_KEY, BASE_URL, EMBEDDING_MODEL, MODEL, SLOW_MODEL, picture, provokedErrors, report, scenario, tools } from './report.mjs'

const responses = {
  provider: (apiKey) => createOpenAI({ baseURL: `${BASE_URL}/v1`, apiKey }),
  model: (provider, name) => provider(name),
}
const openaiThinking = { reasoningEffort: 'low', reasoningSummary: 'auto', forceReasoning: true }
const surfaces = {
  openai_chat: {
    provider: (apiKey) => createOpenAI({ baseURL: `${BASE_URL}/v1`, apiKey }),
    model: (provider, name) => provider.chat(name),
    thinking: { openai: { reasoningEffort: 'low', forceReasoning: true } },
  },
  openai_responses: { ...responses, thinking: { openai: { ...openaiThinking, store: false } } },
  // Its default: earlier output is referred to by id.
  openai_responses_stored: { ...responses, thinking: { openai: openaiThinking } },
  anthropic: {
    provider: (apiKey) => createAnthropic({ baseURL: `${BASE_URL}/v1`, apiKey }),
    model: (provider, name) => provider(name),
    thinking: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } },
  },
  compatible: {
    provider: (apiKey) =>
      createOpenAICompatible({ name: 'narthex', baseURL: `${BASE_URL}/v1`, apiKey, includeUsage: true, supportsStructuredOutputs: true }),
    model: (provider, name) => provider(name),
    thinking: { narthex: { reasoningEffort: 'low' } },
  },
}
const surface = surfaces[process.env.SURFACE]
const provider = surface.provider(API_KEY)
const basic = { model: surface.model(provider, MODEL), maxRetries: 0, maxOutputTokens: 4000 }
const Person = z.object({ name: z.string(), age: z.number().int() })
const usage = (counts) => ({ input: counts.inputTokens, output: counts.outputTokens })

const toolDefinitions = (names, called) =>
  Object.fromEntries(
    names.map((name) => [
      name,
      tool({
        description: tools[name].description,
        inputSchema: z.object({ city: z.string() }),
        execute: (input) => {
          called.push({ name, arguments: input })
          return tools[name].run()
        },
      }),
    ]),
  )

const unstreamed = async (fields) => {
  const answer = await generateText({ ...basic, ...fields })
  return { ...summary(answer), reasoning: answer.steps.map(({ reasoningText }) => reasoningText ?? '').join('') }
}

async function streamed(fields) {
  let failure
  const stream = streamText({ ...basic, ...fields, onError: ({ error }) => (failure = error) })
  let pieces = 0
  for await (const part of stream.fullStream) if (part.type === 'text-delta' && part.text) pieces += 1
  if (failure) throw failure
  const [text, finishReason, totalUsage, response, steps] = await Promise.all([
    stream.text,
    stream.finishReason,
    stream.totalUsage,
    stream.response,
    stream.steps,
  ])
  const reasoning = steps.map(({ reasoningText }) => reasoningText ?? '').join('')
  return { ...summary({ text, finishReason, totalUsage, response }), reasoning, pieces }
}

const summary = ({ text, finishReason, totalUsage, response }) => ({
  text,
  finish: finishReason,
  usage: usage(totalUsage),
  id: response.headers?.['x-request-id'],
  messages: response.messages,
})

async function toolLoop(send, text, names, more = {}) {
  const called = []
  const answer = await send({ prompt: text, tools: toolDefinitions(names, called), stopWhen: stepCountIs(4), ...more })
  return { called, ...answer, messages: undefined }
}

async function thinking(send) {
  const first = await send({ prompt: scenario.think, providerOptions: surface.thinking })
  const messages = [{ role: 'user', content: scenario.think }, ...first.messages, { role: 'user', content: scenario.again }]
  const second = await send({ messages, providerOptions: surface.thinking })
  return { reasoning: first.reasoning, text: first.text, again: second.text }
}

const withThinking = { providerOptions: surface.thinking }

await report({
  text: () => unstreamed({ system: scenario.system, prompt: scenario.hello }),
  stream: () => streamed({ prompt: scenario.hello }),
  tools: () => toolLoop(unstreamed, scenario.weather, ['get_weather']),
  tools_streamed: () => toolLoop(streamed, scenario.weather, ['get_weather']),
  parallel: () => toolLoop(unstreamed, scenario.weather_and_time, ['get_weather', 'get_time']),
  parallel_streamed: () => toolLoop(streamed, scenario.weather_and_time, ['get_weather', 'get_time']),
  structured: async () => (await generateObject({ ...basic, schema: Person, prompt: scenario.person })).object,
  async structured_streamed() {
    const stream = streamObject({ ...basic, schema: Person, prompt: scenario.person })
    for await (const _ of stream.partialObjectStream);
    return stream.object
  },
  reasoning: () => thinking(unstreamed),
  reasoning_streamed: () => thinking(streamed),
  reasoning_over_tools: () => toolLoop(unstreamed, scenario.weather, ['get_weather'], withThinking),
  reasoning_over_tools_streamed: () => toolLoop(streamed, scenario.weather, ['get_weather'], withThinking),
  async image() {
    const content = [
      { type: 'text', text: scenario.picture },
      { type: 'image', image: picture },
    ]
    return { text: (await unstreamed({ messages: [{ role: 'user', content }] })).text }
  },
  errors: () =>
    provokedErrors(
      // The library itself rejects a temperature that is not a number, so an invalid schema is sent instead.
      ({ key = API_KEY, model = MODEL, temperature }) =>
        generateObject({
          model: surface.model(surface.provider(key), model),
          prompt: scenario.person,
          schema: temperature ? jsonSchema({ type: 'object', properties: { name: { type: 'strange' } } }) : Person,
          maxRetries: 0,
        }),
      (error) => ({ class: error.constructor.name, status: error.statusCode, message: error.message, id: error.responseHeaders?.['x-request-id'] }),
    ),
  ...(surface.provider('').textEmbeddingModel && process.env.SURFACE !== 'anthropic'
    ? {
        async embeddings() {
          const model = provider.textEmbeddingModel(EMBEDDING_MODEL)
          const { embeddings, usage: counted } = await embedMany({ model, values: ['one', 'two'], maxRetries: 0 })
          return { lengths: embeddings.map(({ length }) => length), input: counted.tokens }
        },
      }
    : {}),
  async abort() {
    let pieces = 0
    const controller = new AbortController()
    const stream = streamText({ ...basic, model: surface.model(provider, SLOW_MODEL), prompt: scenario.long, abortSignal: controller.signal })
    for await (const part of stream.fullStream) if (part.type === 'text-delta' && ++pieces === 2) controller.abort()
    return { pieces }
  },
})
