/** Shared by the scripts of JavaScript clients: the prompts, and the report of their results. */
import { readFileSync } from 'node:fs'

export const { BASE_URL, API_KEY, MODEL, SLOW_MODEL, EMBEDDING_MODEL } = process.env
export const scenario = JSON.parse(readFileSync(new URL('scenario.json', import.meta.url)))
export const picture = `data:image/png;base64,${scenario.png}`

/** Runs each check and prints {name: {result} | {error}} as the last line. Arguments of the script select checks by name. */
export async function report(checks) {
  const outcomes = {}
  for (const [name, check] of Object.entries(checks)) {
    if (process.argv.length > 2 && !process.argv.includes(name)) continue
    try {
      outcomes[name] = { result: await check() }
    } catch (error) {
      outcomes[name] = { error: `${error?.stack ?? error}`.slice(0, 3000) }
    }
  }
  process.stdout.write('\n' + JSON.stringify(outcomes))
}

/** The errors that users of a client get for an unknown model, a wrong key, and an invalid request. `describe`: an error as reported. */
export async function provokedErrors(send, describe) {
  const errors = {}
  for (const [kind, fields] of Object.entries({
    unknown: { model: 'no-such-model' },
    bad_key: { key: 'nx-wrong' },
    bad_request: { temperature: 'hot' },
  })) {
    errors[kind] = await send(fields).then(
      (response) => ({ response }),
      (error) => describe(error),
    )
  }
  return errors
}

/** The two tools, as {name: {description, run}}. Each takes a city. */
export const tools = {
  get_weather: { description: 'The weather in a city', run: () => scenario.sunny },
  get_time: { description: 'The time in a city', run: () => scenario.noon },
}
