/** What the scripts of JavaScript clients share: what they ask, and how they tell what they saw. */
import { readFileSync } from 'node:fs'

export const { BASE_URL, API_KEY, MODEL, SLOW_MODEL, EMBEDDING_MODEL } = process.env
export const scenario = JSON.parse(readFileSync(new URL('scenario.json', import.meta.url)))
export const picture = `data:image/png;base64,${scenario.png}`

/** Runs each check by itself and prints {name: {saw} | {failed}} as the last line. Names as arguments: only those. */
export async function report(checks) {
  const told = {}
  for (const [name, check] of Object.entries(checks)) {
    if (process.argv.length > 2 && !process.argv.includes(name)) continue
    try {
      told[name] = { saw: await check() }
    } catch (error) {
      told[name] = { failed: `${error?.stack ?? error}`.slice(0, 3000) }
    }
  }
  process.stdout.write('\n' + JSON.stringify(told))
}

/** The errors that users of a client get for a model that is not there, a key that is wrong, and a request that is. */
export async function refusals(ask, seen) {
  const told = {}
  for (const [kind, how] of Object.entries({
    unknown: { model: 'no-such-model' },
    bad_key: { key: 'nx-wrong' },
    bad_request: { temperature: 'hot' },
  })) {
    told[kind] = await ask(how).then(
      (answer) => ({ answered: answer }),
      (error) => seen(error),
    )
  }
  return told
}

/** The two tools, as {name: {description, run}}. Each takes a city. */
export const tools = {
  get_weather: { description: 'The weather in a city', run: () => scenario.sunny },
  get_time: { description: 'The time in a city', run: () => scenario.noon },
}
