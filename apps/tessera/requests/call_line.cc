#include "requests/call_line.h"

#include <fmt/format.h>

#include <stdexcept>

#include "api/call.h"
#include "base/error.h"
#include "cli/surroundings.h"

namespace tessera::testing {
namespace {

using Json = nlohmann::ordered_json;

// Whether the command says what the call says. What does not fit, and a search that finds nothing,
// are answers too.
bool same(const Answer& printed, const std::string& answer) {
  const Json json = Json::parse(answer);
  if (json.contains("error")) {
    return printed.out.empty() && printed.code == json.at("error").at("code").get<int>();
  }
  const bool answered =
      printed.code == 0 || printed.code == static_cast<int>(ExitCode::kDoesNotFit);
  return answered && as_method(printed.out) == json.at("result").dump(2) + "\n";
}

// What is known of the machine changes what a call answers only where the call asks for it.
bool asks_the_machine(const Call& call, const std::string& request) {
  bool asked = false;
  Surroundings around;
  around.use_machine = [&](RunSpec& spec) {
    asked = true;
    return console_surroundings().use_machine(spec);
  };
  respond(call.method, request, around);
  return asked;
}

}  // namespace

std::optional<Json> call_line(const Request& request, const Workplace& workplace) {
  const std::optional<Call> call = as_whole_call(request);
  if (!call.has_value()) return std::nullopt;
  const std::string text = call->request.dump();
  const std::string answer = respond(call->method, text, {});
  Json line = {{"method", call->method}, {"request", text}, {"answer", answer}};
  const Answer printed = workplace.ask(with_json(request));
  if (same(printed, answer)) {
    line["code"] = printed.code;
    line["printed"] = as_method(printed.out);
  } else if (!asks_the_machine(*call, text)) {
    throw std::runtime_error(
        fmt::format("{}\n{}the call answers\n{}", text_of(request), bytes_of(printed), answer));
  }
  return line;
}

}  // namespace tessera::testing
