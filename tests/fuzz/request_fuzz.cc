// The body of a request to /v1/completions or /v1/chat/completions. The first byte says which.
#include <nlohmann/json.hpp>

#include "fuzz_target.h"
#include "serve/api/api_error.h"
#include "serve/api/asked.h"
#include "serve/grammar/grammar.h"
#include "serve/testing/asked_limits.h"

namespace {

using namespace tessera;
using namespace tessera::serve;

ServedModel bytes_model() {
  ServedModel model;
  model.id = "toy";
  model.words = words_of_bytes(TESSERA_SOURCE_DIR "/tests/data/templates/chatml.jinja");
  model.vocab = 256;
  model.max_context = 300;
  model.make_grammar = [](const nlohmann::ordered_json& schema) {
    GrammarLimits limits;
    limits.steps = 100'000;
    limits.states = 2'000;
    return make_grammar(compile_schema(schema, limits), TokenBytes::single_bytes(), {0});
  };
  return model;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ServedModel kModel = bytes_model();
  if (size == 0) return 0;
  const std::string body = fuzz::text_of(data + 1, size - 1);
  try {
    const Asked asked = data[0] % 3 == 0   ? read_completion(body, kModel)
                        : data[0] % 3 == 1 ? read_chat(body, kModel)
                                           : read_either(body, kModel, nullptr);
    fuzz::expect(broken_limit(asked, kModel).empty());
  } catch (const ApiError& error) {
    fuzz::expect(error.status() == 400 || error.status() == 404 || error.status() == 413);
    fuzz::expect(nlohmann::json::accept(error.body()) && error.body().size() < 4'000);
  }
  return 0;
}
