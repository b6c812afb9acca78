#include "serve/grammar/grammar.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "serve/grammar/compiled.h"
#include "serve/grammar/compiler.h"
#include "serve/grammar/machine.h"

namespace tessera::serve {
namespace {

using grammar::Config;
using grammar::ConfigSet;
using grammar::LocalMask;
using grammar::LocalMasks;
using grammar::Machine;

void set_bit(std::vector<uint32_t>& bits, int32_t token) {
  const auto at = static_cast<uint32_t>(token);
  if (at / 32 < bits.size()) bits[at / 32] |= 1U << (at % 32);
}
void clear_bit(std::vector<uint32_t>& bits, int32_t token) {
  const auto at = static_cast<uint32_t>(token);
  if (at / 32 < bits.size()) bits[at / 32] &= ~(1U << (at % 32));
}

class JsonGrammar : public TokenGrammar {
 public:
  JsonGrammar(std::shared_ptr<const CompiledGrammar> compiled,
              std::shared_ptr<const TokenBytes> tokens, std::vector<int32_t> end_tokens)
      : compiled_(std::move(compiled)),
        tokens_(std::move(tokens)),
        masks_(compiled_->masks_of(tokens_)),
        end_tokens_(std::move(end_tokens)),
        machine_(compiled_->rules(), 0) {
    machine_.start(set_);
  }

  void allow(std::vector<uint32_t>& bits) override {
    if (!ended_) {
      for (const Config& config : set_) allow_in(config, bits);
    }
    for (const int32_t token : end_tokens_) clear_bit(bits, token);
    const bool any = std::any_of(bits.begin(), bits.end(), [](uint32_t word) { return word != 0; });
    if (any && !complete_) return;
    for (const int32_t token : end_tokens_) set_bit(bits, token);
  }

  void accept(int32_t token) override {
    if (std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end()) {
      ended_ = true;
      return;
    }
    const std::string_view bytes = tokens_->bytes_of(token);
    TESSERA_CHECK(!ended_ && !bytes.empty(), "token {} was not allowed", token);
    for (const char byte : bytes) {
      complete_ = machine_.step(set_, static_cast<uint8_t>(byte), next_);
      TESSERA_CHECK(complete_ || !next_.empty(), "token {} was not allowed", token);
      std::swap(set_, next_);
    }
    machine_.collect(set_);
  }

  [[nodiscard]] std::unique_ptr<TokenGrammar> clone() const override {
    return std::make_unique<JsonGrammar>(*this);
  }

 private:
  void allow_in(const Config& config, std::vector<uint32_t>& bits) {
    const std::shared_ptr<const LocalMask> mask =
        masks_->find(config.state, config.count, machine_.depth_of(config.call));
    for (const int32_t token : mask->tokens) set_bit(bits, token);
    const size_t words = std::min(mask->bits.size(), bits.size());
    for (size_t i = 0; i < words; ++i) bits[i] |= mask->bits[i];
    // Behind the end of the whole text nothing may come.
    if (config.call == 0 || mask->exits.empty()) return;
    const size_t mark = machine_.mark();
    ConfigSet after;
    machine_.leave(config.call, after);
    std::array<bool, 256> begins{};
    for (const Config& one : after) {
      const grammar::RuleState& state = machine_.rules().states[one.state];
      for (uint32_t i = state.first_edge; i < state.end_edge; ++i) {
        const grammar::RuleEdge& edge = machine_.rules().edges[i];
        std::fill(begins.begin() + edge.lo, begins.begin() + edge.hi + 1, true);
      }
    }
    for (const uint32_t exit : mask->exits) walk(exit, after, begins, bits);
    machine_.forget(mark);
  }

  // The tokens below a node of the trie, from `after` on; `begins` are the bytes that may come.
  void walk(uint32_t root, const ConfigSet& after, const std::array<bool, 256>& begins,
            std::vector<uint32_t>& bits) {
    const auto nodes = tokens_->nodes();
    const uint32_t above = nodes[root].depth;
    const size_t mark = machine_.mark();
    for (uint32_t i = root + 1; i < nodes[root].skip;) {
      const TokenBytes::Node& node = nodes[i];
      const uint32_t depth = node.depth - above;  // 1: right below
      if (depth == 1 && !begins[node.byte]) {
        i = node.skip;
        continue;
      }
      if (at_.size() <= depth) at_.resize(depth + 1);
      if (marks_.size() <= depth) marks_.resize(depth + 1);
      marks_[0] = mark;
      machine_.forget(marks_[depth - 1]);
      const bool complete =
          machine_.step(depth == 1 ? after : at_[depth - 1], node.byte, at_[depth]);
      marks_[depth] = machine_.mark();
      if (complete || !at_[depth].empty()) {
        for (const int32_t token : tokens_->tokens_at(i)) set_bit(bits, token);
      }
      i = at_[depth].empty() ? node.skip : i + 1;
    }
    machine_.forget(mark);
  }

  std::shared_ptr<const CompiledGrammar> compiled_;
  std::shared_ptr<const TokenBytes> tokens_;
  std::shared_ptr<LocalMasks> masks_;
  std::vector<int32_t> end_tokens_;
  Machine machine_;
  ConfigSet set_;
  bool complete_ = false;  // the text may end here
  bool ended_ = false;
  ConfigSet next_;             // scratch
  std::vector<ConfigSet> at_;  // the same, by bytes below an exit
  std::vector<size_t> marks_;
};

}  // namespace

std::shared_ptr<LocalMasks> CompiledGrammar::masks_of(
    const std::shared_ptr<const TokenBytes>& tokens) const {
  const std::lock_guard lock(mutex_);
  if (tokens_ != tokens) {
    tokens_ = tokens;
    masks_ = std::make_shared<LocalMasks>(rules_, *tokens, cached_bytes_);
  }
  return masks_;
}

std::shared_ptr<const CompiledGrammar> compile_schema(const nlohmann::ordered_json& schema,
                                                      const GrammarLimits& limits) {
  return std::make_shared<const CompiledGrammar>(grammar::SchemaCompiler(schema, limits).compile(),
                                                 limits.cached_bytes);
}

std::shared_ptr<const CompiledGrammar> compile_json_object(const GrammarLimits& limits) {
  return compile_schema({{"type", "object"}}, limits);
}

std::unique_ptr<TokenGrammar> make_grammar(std::shared_ptr<const CompiledGrammar> compiled,
                                           std::shared_ptr<const TokenBytes> tokens,
                                           std::vector<int32_t> end_tokens) {
  require_config(!end_tokens.empty(), "a grammar needs a token that ends the text");
  return std::make_unique<JsonGrammar>(std::move(compiled), std::move(tokens),
                                       std::move(end_tokens));
}

}  // namespace tessera::serve
