/** LibreChat's agents, by the library that its server runs them with: `@librechat/agents`. */
import { Providers, Run } from '@librechat/agents'
import { HumanMessage } from '@langchain/core/messages'
import { tool } from '@langchain/core/tools'
import { z } from 'zod'
import { API_KEY, BASE_URL, MODEL, report, scenario, tools } from './report.mjs'

// As LibreChat's server makes it of a custom endpoint in librechat.yaml, and of ANTHROPIC_REVERSE_PROXY.
const models = {
  openai: { provider: Providers.OPENAI, model: MODEL, apiKey: API_KEY, configuration: { baseURL: `${BASE_URL}/v1` } },
  anthropic: { provider: Providers.ANTHROPIC, model: MODEL, apiKey: API_KEY, clientOptions: { baseURL: BASE_URL } },
}

async function loop(streaming) {
  const called = []
  const weather = tool(
    (input) => {
      called.push({ name: 'get_weather', arguments: input })
      return tools.get_weather.run()
    },
    { name: 'get_weather', description: tools.get_weather.description, schema: z.object({ city: z.string() }) },
  )
  const run = await Run.create({
    runId: 'run',
    graphConfig: { type: 'standard', llmConfig: { ...models[process.env.SURFACE], streaming }, tools: [weather], instructions: scenario.system },
    returnContent: true,
  })
  const config = { runId: 'run', configurable: { thread_id: 'thread' }, version: 'v2', streamMode: 'values' }
  const content = await run.processStream({ messages: [new HumanMessage(scenario.weather)] }, config)
  return { called, text: content.map((part) => (part.type === 'text' ? part.text : '')).join('') }
}

await report({ tools: () => loop(false), tools_streamed: () => loop(true) })
process.exit()
