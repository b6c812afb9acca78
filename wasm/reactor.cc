// The door of the module (wasm/README.md): the caller writes "METHOD\nREQUEST" to input(length),
// calls call(), and reads the answer of respond() (api/call.h) at out_ptr(), out_len() bytes long.
#include <cstddef>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "api/call.h"

// How far a search is, as JSON; what it gives is whether the search should stop with what it has.
extern "C" __attribute__((import_module("env"), import_name("progress"))) int env_progress(
    const char* text, size_t length);

namespace tessera {
namespace {

std::string request_text, answer_text;

bool report(const SearchProgress& progress) {
  const std::string text = nlohmann::ordered_json{
      {"groups", progress.groups},
      {"groups_done", progress.groups_done},
      {"configurations", progress.configurations},
      {"best_step_s",
       progress.best_step_s}}.dump();
  return env_progress(text.data(), text.size()) == 0;
}

}  // namespace
}  // namespace tessera

extern "C" {

// Room for a request of so many bytes, until the next call of this. Null: there is none.
__attribute__((export_name("input"))) char* tessera_input(size_t length) {
  try {
    tessera::request_text.assign(length, '\0');
  } catch (const std::exception&) {
    return nullptr;
  }
  return tessera::request_text.data();
}

// 0: answered; 1: refused, and the answer is {"error": {"code", "message"}}.
__attribute__((export_name("call"))) int tessera_call() {
  const std::string_view text = tessera::request_text;
  const size_t line = text.find('\n');
  const std::string_view method = text.substr(0, line);
  const std::string_view request = line == text.npos ? "{}" : text.substr(line + 1);
  tessera::Surroundings around;
  around.progress = tessera::report;
  tessera::answer_text = tessera::respond(method, request, around);
  return tessera::answer_text.starts_with(R"({"error")") ? 1 : 0;
}

// Valid until the next call.
__attribute__((export_name("out_ptr"))) const char* tessera_out_ptr() {
  return tessera::answer_text.data();
}
__attribute__((export_name("out_len"))) size_t tessera_out_len() {
  return tessera::answer_text.size();
}
}
