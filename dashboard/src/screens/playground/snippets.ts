/** A request as a program sends it. The key is an environment variable: no value of one is in this page. */
const KNOWN = new Set(['model', 'messages', 'temperature', 'max_tokens', 'reasoning_effort', 'tools', 'tool_choice', 'response_format', 'top_p', 'stop', 'seed', 'n', 'user', 'frequency_penalty', 'presence_penalty', 'logit_bias', 'logprobs', 'top_logprobs', 'parallel_tool_calls', 'max_completion_tokens', 'metadata', 'verbosity', 'stream', 'stream_options', 'service_tier', 'store', 'modalities', 'prediction', 'prompt_cache_key', 'safety_identifier']);

export type Language = 'curl' | 'python' | 'javascript';

/** Pictures are too long to be read: their beginning says what belongs there. */
export const shortened = (body: unknown): unknown =>
  JSON.parse(JSON.stringify(body, (_, value: unknown) => (typeof value === 'string' && value.startsWith('data:image/') ? `${value.slice(0, value.indexOf(',') + 1)}…` : value)));

export function snippet(language: Language, base: string, given: Record<string, unknown>): string {
  const body = shortened(given) as Record<string, unknown>;
  if (language === 'curl') return `curl ${base}/v1/chat/completions \\\n  -H "Authorization: Bearer $NARTHEX_KEY" \\\n  -H "Content-Type: application/json" \\\n  -d @- <<'JSON'\n${JSON.stringify(body, null, 2)}\nJSON`;
  if (language === 'javascript') {
    const fields = Object.entries({ ...body, stream: true }).map(([name, value]) => `  ${identifier(name)}: ${indented(JSON.stringify(value, null, 2))},`);
    return `import OpenAI from 'openai';\n\nconst client = new OpenAI({ baseURL: '${base}/v1', apiKey: process.env.NARTHEX_KEY });\n\nconst stream = await client.chat.completions.create({\n${fields.join('\n')}\n});\nfor await (const chunk of stream) {\n  process.stdout.write(chunk.choices[0]?.delta?.content ?? '');\n}`;
  }
  const own = Object.entries(body).filter(([name]) => KNOWN.has(name)), others = Object.fromEntries(Object.entries(body).filter(([name]) => !KNOWN.has(name)));
  const fields = [...own.map(([name, value]) => `    ${name}=${python(value, 1)},`), '    stream=True,', ...(Object.keys(others).length ? [`    extra_body=${python(others, 1)},`] : [])];
  return `import os\n\nfrom openai import OpenAI\n\nclient = OpenAI(base_url="${base}/v1", api_key=os.environ["NARTHEX_KEY"])\n\nstream = client.chat.completions.create(\n${fields.join('\n')}\n)\nfor chunk in stream:\n    if chunk.choices and chunk.choices[0].delta.content:\n        print(chunk.choices[0].delta.content, end="", flush=True)`;
}

const identifier = (name: string) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name));
const indented = (text: string) => text.replaceAll('\n', '\n  ');

/** A value as Python writes it. Strings of JSON are strings of Python. */
export function python(value: unknown, depth = 0): string {
  if (value === null) return 'None';
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (typeof value !== 'object') return JSON.stringify(value);
  const inner = '    '.repeat(depth + 1), end = '    '.repeat(depth);
  const items = Array.isArray(value) ? value.map((each) => python(each, depth + 1)) : Object.entries(value as object).map(([name, each]) => `${JSON.stringify(name)}: ${python(each, depth + 1)}`);
  const [open, close] = Array.isArray(value) ? ['[', ']'] : ['{', '}'];
  const short = `${open}${items.join(', ')}${close}`;
  return short.length + 4 * depth < 72 && !short.includes('\n') ? short : `${open}\n${items.map((each) => `${inner}${each},`).join('\n')}\n${end}${close}`;
}
