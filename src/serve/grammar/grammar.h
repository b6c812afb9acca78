// Answers that are JSON: a schema, compiled into what bytes may come next, seen through the tokens
// of a vocabulary (docs/structured-output.md says which schemas, and what is written for them).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "serve/generator.h"
#include "serve/grammar/token_bytes.h"

namespace tessera::serve {

// What a schema may cost. Schemas come from strangers: one that doubles with every reference must
// end in a message. Counted, not timed: the same schema is refused everywhere.
struct GrammarLimits {
  int64_t schema_bytes = int64_t{256} << 10;  // as compact JSON
  int schema_depth = 64;                      // lists and objects inside each other in the schema
  int64_t steps = 20'000'000;                 // of compiling
  int64_t states = 200'000;                   // of the automaton
  int64_t edges = 2'000'000;                  // between them
  int text_depth = 64;                        // lists and objects inside each other in the answer
  int64_t cached_bytes = int64_t{64} << 20;   // of masks, for each vocabulary
  // One blank may follow each ':' and ',', and one may begin the text; false: no blank at all.
  bool blanks = true;
};

// Immutable to those who use it, apart from masks that it remembers: any thread may make grammars.
class CompiledGrammar;

// `schema` keeps the order of its keys: properties are written in it. Throws ConfigError "schema
// at '#/...': ..." for what is not supported or contradicts itself, and where it would pass a
// limit.
std::shared_ptr<const CompiledGrammar> compile_schema(const nlohmann::ordered_json& schema,
                                                      const GrammarLimits& limits = {});
// Any JSON object.
std::shared_ptr<const CompiledGrammar> compile_json_object(const GrammarLimits& limits = {});

// One text of `compiled`. Each of `end_tokens` ends it, and is allowed where it may end; where no
// other token may come, they are allowed as well, so that a mask is never empty. Not looked at:
// whether what is left of the answer's tokens can still finish the text.
std::unique_ptr<TokenGrammar> make_grammar(std::shared_ptr<const CompiledGrammar> compiled,
                                           std::shared_ptr<const TokenBytes> tokens,
                                           std::vector<int32_t> end_tokens);

}  // namespace tessera::serve
