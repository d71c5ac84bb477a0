// Manages teams with openapi-fetch and the types that openapi-typescript made as `schema.d.ts`, and prints what it saw as the last line.
import createClient from 'openapi-fetch'
import type { components, paths } from './schema.js'

declare const process: { env: Record<string, string> }
const { BASE_URL, ADMIN_KEY, PREFIX } = process.env

const client = createClient<paths>({ baseUrl: BASE_URL, headers: { authorization: `Bearer ${ADMIN_KEY}` } })

function isTeam(body: components['schemas']['Team'] | components['schemas']['DryRun'] | undefined): body is components['schemas']['Team'] {
  return body !== undefined && 'name' in body
}

const names = [0, 1, 2].map((number) => `${PREFIX}-${number}`)
const created: unknown[] = []
for (const name of names) {
  const { data, response } = await client.POST('/admin/v1/teams', { body: { name, priority: 5 } })
  created.push(isTeam(data) ? [response.status, data.name, data.priority] : null)
}
const duplicate = await client.POST('/admin/v1/teams', { body: { name: names[0] } })
const pages: string[][] = []
let after: string | null | undefined
do {
  const { data } = await client.GET('/admin/v1/teams', { params: { query: { search: PREFIX, limit: 2, ...(after ? { after } : {}) } } })
  pages.push(data!.data.map((team) => team.name))
  after = data!.next
} while (after)
const path = { name: names[0] }
const shown = await client.GET('/admin/v1/teams/{name}', { params: { path } })
const header = { 'If-Match': shown.response.headers.get('etag')! }
const tried = await client.PATCH('/admin/v1/teams/{name}', { params: { path, header, query: { dry_run: true } }, body: { priority: 7 } })
const patched = await client.PATCH('/admin/v1/teams/{name}', { params: { path, header }, body: { priority: 7 } })
const stale = await client.PATCH('/admin/v1/teams/{name}', { params: { path, header }, body: { priority: 8 } })
const deleted: number[] = []
for (const name of names) {
  const { response } = await client.DELETE('/admin/v1/teams/{name}', { params: { path: { name }, header: { 'If-Match': '*' } } })
  deleted.push(response.status)
}
const missing = await client.GET('/admin/v1/teams/{name}', { params: { path } })
const seen = {
  created,
  duplicate: duplicate.response.status,
  pages,
  dry_run: tried.data && 'changes' in tried.data ? tried.data.changes.map((change) => change.action) : null,
  patched: isTeam(patched.data) ? patched.data.priority : null,
  stale: [stale.response.status, stale.error?.error.type],
  deleted,
  missing: [missing.response.status, missing.error?.error.type],
}
console.log(JSON.stringify(seen))
