// Chat templates: how a model wants a conversation written. A bounded subset of Jinja, as
// transformers runs it (sandboxed, trim_blocks, lstrip_blocks, break and continue,
// {% generation %}); docs/finetune.md says what is in it.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/template/values/budget.h"

namespace tessera {

namespace jinja {
struct Tree;
}

// Bytes of a text, the end not included.
struct TextSpan {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

struct RenderedChat {
  std::string text;                 // UTF-8
  std::vector<TextSpan> generated;  // what stood in {% generation %}, ascending
};

// Immutable: any thread may render.
class ChatTemplate {
 public:
  // `name` stands for it in messages. Throws ConfigError "NAME:LINE: ..." for a template that is
  // too long, is not UTF-8, breaks Jinja's grammar or uses what is not in the subset.
  static ChatTemplate parse(const std::string& source, const std::string& name,
                            const TemplateLimits& limits = {});

  // Whether it marks what the assistant says.
  [[nodiscard]] bool marks_generation() const;

  // `context` has what the template may name: messages, tools, add_generation_prompt, bos_token,
  // ... Objects keep the order of their keys. `now` is for templates that print the date. Pure.
  // Throws ConfigError with the line for what the template refuses, and where it would pass a
  // limit.
  [[nodiscard]] RenderedChat render(const nlohmann::ordered_json& context,
                                    const std::optional<std::tm>& now) const;
  // On a budget that several renderings share.
  [[nodiscard]] RenderedChat render(const nlohmann::ordered_json& context,
                                    const std::optional<std::tm>& now, jinja::Budget& budget) const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const TemplateLimits& limits() const { return limits_; }

 private:
  std::string name_;
  TemplateLimits limits_;
  std::shared_ptr<const jinja::Tree> tree_;
};

}  // namespace tessera
