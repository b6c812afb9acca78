// The client library of OpenAI, unmodified, against a server of Tessera.
// Usage: node client.mjs http://127.0.0.1:PORT KEY
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const [address, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${address}/v1`, apiKey, maxRetries: 0, timeout: 60_000 });
const model = (await client.models.list()).data[0].id;
const messages = [
  { role: 'system', content: 'Be short.' },
  { role: 'user', content: 'Hello' },
];
const some = { model, temperature: 0, max_tokens: 12 };

async function text(stream) {
  let all = '';
  let last = null;
  for await (const chunk of stream) {
    all += chunk.choices[0]?.delta?.content ?? chunk.choices[0]?.text ?? '';
    last = chunk;
  }
  return { all, last };
}

async function refusal(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new assert.AssertionError({ message: 'it was not refused' });
}

const checks = {
  async models() {
    const one = await client.models.retrieve(model);
    assert.equal(one.id, model);
    assert.equal(one.object, 'model');
  },

  async chat() {
    const answer = await client.chat.completions.create({ ...some, messages });
    assert.equal(answer.object, 'chat.completion');
    assert.match(answer.id, /^chatcmpl-/);
    assert.equal(answer.choices.length, 1);
    assert.equal(answer.choices[0].message.role, 'assistant');
    assert.equal(typeof answer.choices[0].message.content, 'string');
    assert.equal(answer.choices[0].finish_reason, 'length');
    assert.equal(answer.usage.completion_tokens, 12);
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + 12);
  },

  async 'a conversation that goes on'() {
    const first = await client.chat.completions.create({ ...some, messages });
    const more = [...messages, first.choices[0].message, { role: 'user', content: 'And then?' }];
    const second = await client.chat.completions.create({ ...some, messages: more });
    assert.ok(second.usage.prompt_tokens > first.usage.prompt_tokens);
    assert.ok(second.usage.prompt_tokens_details.cached_tokens > 0);
  },

  async 'chat, streamed'() {
    const whole = await client.chat.completions.create({ ...some, messages });
    const stream = await client.chat.completions.create({ ...some, messages, stream: true });
    const { all, last } = await text(stream);
    assert.equal(all, whole.choices[0].message.content);
    assert.equal(last.choices[0].finish_reason, 'length');
  },

  async 'the helper for streams'() {
    const stream = client.chat.completions.stream({
      ...some, messages, stream_options: { include_usage: true },
    });
    let seen = '';
    stream.on('content', (delta) => { seen += delta; });
    const final = await stream.finalChatCompletion();
    assert.equal(final.choices[0].message.content, seen);
    assert.equal(final.usage.completion_tokens, 12);
  },

  async 'usage of a stream'() {
    const stream = await client.chat.completions.create({
      ...some, messages, stream: true, stream_options: { include_usage: true },
    });
    const { last } = await text(stream);
    assert.deepEqual(last.choices, []);
    assert.equal(last.usage.completion_tokens, 12);
  },

  async completions() {
    const answer = await client.completions.create({ ...some, prompt: 'Once' });
    assert.equal(answer.object, 'text_completion');
    const { all } = await text(
      await client.completions.create({ ...some, prompt: 'Once', stream: true }));
    assert.equal(all, answer.choices[0].text);
    const ids = [...Buffer.from('Once')];
    const same = await client.completions.create({ ...some, prompt: ids });
    assert.equal(same.choices[0].text, answer.choices[0].text);
    const several = await client.completions.create({ ...some, prompt: ['Once', 'Twice'], n: 2 });
    assert.deepEqual(several.choices.map((choice) => choice.index), [0, 1, 2, 3]);
  },

  async logprobs() {
    const answer = await client.chat.completions.create({
      ...some, messages, logprobs: true, top_logprobs: 3,
    });
    const { content } = answer.choices[0].logprobs;
    assert.equal(content.length, 12);
    for (const token of content) {
      assert.ok(token.logprob <= 0);
      assert.equal(token.top_logprobs.length, 3);
      assert.equal(token.top_logprobs[0].logprob, token.logprob); // the likeliest was taken
      assert.ok(Array.isArray(token.bytes));
    }
    const older = await client.completions.create({ ...some, prompt: 'Once', logprobs: 2 });
    assert.equal(older.choices[0].logprobs.tokens.length, 12);
    const echoed = await client.completions.create({
      model, prompt: 'Once', max_tokens: 0, echo: true, logprobs: 0,
    });
    assert.equal(echoed.choices[0].text, 'Once');
    assert.equal(echoed.choices[0].logprobs.token_logprobs[0], null);
  },

  async 'n, seed and temperature'() {
    const ask = (seed) => client.chat.completions.create({
      model, messages, n: 3, max_tokens: 20, temperature: 1, seed,
    });
    const texts = (answer) => answer.choices.map((choice) => choice.message.content);
    const [one, two, other] = [texts(await ask(7)), texts(await ask(7)), texts(await ask(8))];
    assert.deepEqual(one, two);
    assert.notDeepEqual(one, other);
    assert.notEqual(one[0], one[1]);
  },

  async stop() {
    const whole = await client.completions.create({ model, prompt: 'Once', temperature: 0, max_tokens: 60 });
    const written = whole.choices[0].text;
    const stop = written.slice(20, 23);
    const answer = await client.completions.create({
      model, prompt: 'Once', temperature: 0, max_tokens: 60, stop: [stop],
    });
    assert.equal(answer.choices[0].text, written.slice(0, written.indexOf(stop)));
    assert.equal(answer.choices[0].finish_reason, 'stop');
  },

  async 'an answer in a shape'() {
    const schema = {
      type: 'object',
      properties: { name: { type: 'string', maxLength: 8 }, age: { type: 'integer', minimum: 0, maximum: 99 } },
      required: ['name', 'age'], additionalProperties: false,
    };
    const answer = await client.chat.completions.create({
      model, messages, max_tokens: 200,
      response_format: { type: 'json_schema', json_schema: { name: 'person', schema, strict: true } },
    });
    assert.equal(answer.choices[0].finish_reason, 'stop');
    const person = JSON.parse(answer.choices[0].message.content);
    assert.deepEqual(Object.keys(person), ['name', 'age']);
    assert.ok(Number.isInteger(person.age));
  },

  async 'leaving a stream'() {
    const stream = await client.chat.completions.create({ model, messages, stream: true, max_tokens: 400 });
    for await (const chunk of stream) if (chunk.choices[0]?.delta?.content) break;
    stream.controller.abort();
  },

  async errors() {
    const field = await refusal(client.chat.completions.create({ model, messages, temperature: 9 }));
    assert.ok(field instanceof OpenAI.BadRequestError);
    assert.equal(field.status, 400);
    assert.equal(field.param, 'temperature');
    assert.equal(field.type, 'invalid_request_error');
    const context = await refusal(client.completions.create({ model, prompt: 'x'.repeat(5000) }));
    assert.equal(context.code, 'context_length_exceeded');
    const absent = await refusal(client.chat.completions.create({ model: 'gpt-9', messages }));
    assert.ok(absent instanceof OpenAI.NotFoundError);
    const tools = [{ type: 'function', function: { name: 'f', parameters: {} } }];
    const unsupported = await refusal(client.chat.completions.create({ model, messages, tools }));
    assert.equal(unsupported.param, 'tools');
    const stranger = new OpenAI({ baseURL: `${address}/v1`, apiKey: 'wrong', maxRetries: 0 });
    assert.ok((await refusal(stranger.models.list())) instanceof OpenAI.AuthenticationError);
    const late = await refusal(
      client.chat.completions.create({ model, messages, max_tokens: 400, timeout: 0.001 }));
    assert.equal(late.status, 504);
  },

  async 'many at once'() {
    const answers = await Promise.all(Array.from({ length: 20 }, (_, i) =>
      client.completions.create({ ...some, prompt: `Prompt ${i % 4}` })));
    for (let i = 4; i < 20; ++i) {
      assert.equal(answers[i].choices[0].text, answers[i % 4].choices[0].text);
    }
  },
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok      ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}: ${error.stack ?? error}`);
  }
}
process.exit(failed === 0 ? 0 : 1);
