// Questions and answers are JSON objects; docs/api.md names their keys. What cannot be answered is
// thrown as Refusal.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace tessera {

using Json = nlohmann::ordered_json;

// The message names the place, the value and what to do instead; the exit code is the one that the
// command would have ended with: 1 failed, 2 a mistake in the request, 3 does not fit in memory, 4
// the loss is not finite.
class [[gnu::visibility("default")]] Refusal : public std::runtime_error {
 public:
  Refusal(const std::string& message, int exit_code);
  ~Refusal() override;
  Refusal(const Refusal&) = default;
  Refusal& operator=(const Refusal&) = default;
  [[nodiscard]] int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

// Any method of docs/api.md by its name. The functions of the other headers are this one.
Json ask(const std::string& method, const Json& request);

}  // namespace tessera
