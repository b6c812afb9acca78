// A chat template, and one conversation for it.
#include <nlohmann/json.hpp>

#include "data/template/chat_template.h"
#include "data/tokenizer/unicode/unicode.h"
#include "fuzz_target.h"

namespace {

using namespace tessera;

const nlohmann::ordered_json& conversation() {
  static const auto kContext = nlohmann::ordered_json::parse(R"({
    "messages": [{"role": "system", "content": " be brief\n"},
                 {"role": "user", "content": [{"type": "text", "text": "h\u00e9 <|x|> \ud83d\ude00"}]},
                 {"role": "assistant", "content": null,
                  "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5, true]}}}]},
                 {"role": "user", "content": "{{ no }}"}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "n": 7, "r": -2.5,
    "none_of_it": null, "empty": {}})");
  return kContext;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr TemplateLimits kSmall = {
      .steps = 20'000, .made_bytes = 1 << 20, .output_bytes = 1 << 16};
  fuzz::read_or_refuse([&] {
    const ChatTemplate read = ChatTemplate::parse(fuzz::text_of(data, size), "fuzzed", kSmall);
    std::tm now{};
    now.tm_year = 126;
    now.tm_mday = 1;
    const RenderedChat chat = read.render(conversation(), now);
    fuzz::expect(valid_prefix(chat.text) == chat.text.size());
    fuzz::expect(std::ssize(chat.text) <= kSmall.output_bytes);
    size_t end = 0;
    for (const TextSpan& span : chat.generated) {
      fuzz::expect(end <= span.begin && span.begin <= span.end);
      end = span.end;
    }
    fuzz::expect(end <= chat.text.size());
  });
  return 0;
}
