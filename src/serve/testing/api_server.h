// For tests: the API over a ScriptedGenerator, on a port of the loopback, and how clients ask it.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "http/server.h"
#include "http/testing/client.h"
#include "serve/api/routes.h"
#include "serve/grammar/grammar.h"
#include "serve/testing/scripted_generator.h"

namespace tessera::serve::testing {

using Json = nlohmann::ordered_json;

inline constexpr const char* kCompletions = "/v1/completions";
inline constexpr const char* kChat = "/v1/chat/completions";
// Ends a text of bytes that a schema rules.
inline constexpr int32_t kEndByte = 0;

struct ApiSetup {
  ScriptOptions script = {};
  std::shared_ptr<const Words> words = nullptr;  // null: bytes, with a template for chats
  std::string api_key = {};
  bool loopback_only = true;
  std::chrono::milliseconds longest{0};
  ReadinessOptions readiness = {};
  std::function<void(http::ServerOptions&)> change = nullptr;  // limits of the server
};

inline std::string chat_template_path() {
  return std::string(TESSERA_SOURCE_DIR) + "/tests/data/templates/chatml.jinja";
}

// Polls until it holds or the patience of tests is over; says which.
inline bool holds_soon(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + http::kTestPatience;
  while (!holds() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return holds();
}

class ApiServer {
 public:
  explicit ApiServer(ApiSetup setup = {})
      : generator_(setup.script), api_(generator_, options_of(setup)) {
    http::ServerOptions options = api_.server_options();
    if (setup.change) setup.change(options);
    server_ = std::make_unique<http::Server>(options, api_.handler());
  }

  [[nodiscard]] ScriptedGenerator& generator() { return generator_; }
  [[nodiscard]] ServeApi& api() { return api_; }
  [[nodiscard]] http::Server& server() { return *server_; }
  [[nodiscard]] uint16_t port() const { return server_->port(); }

  // A request as it stands on the wire; `fields`: further lines, each ended by "\r\n".
  [[nodiscard]] std::string request(const std::string& path, const std::string& body,
                                    const std::string& fields = "Connection: close\r\n") const {
    return fmt::format(
        "POST {} HTTP/1.1\r\nHost: localhost:{}\r\nContent-Type: application/json\r\n"
        "Content-Length: {}\r\n{}\r\n{}",
        path, port(), body.size(), fields, body);
  }
  [[nodiscard]] http::TestResponse post(const std::string& path, const std::string& body,
                                        const std::string& fields = "") const {
    http::TestClient client(port());
    client.send(request(path, body, fields + "Connection: close\r\n"));
    return http::parse_response(client.read_to_end());
  }
  [[nodiscard]] http::TestResponse get(const std::string& path,
                                       const std::string& fields = "") const {
    return http::fetch(port(), path, fields);
  }
  [[nodiscard]] Json answer(const std::string& path, const Json& body) const {
    return Json::parse(post(path, body.dump()).body, nullptr, false);
  }
  // The first choice.
  [[nodiscard]] Json choice(const std::string& path, const Json& body) const {
    const Json json = answer(path, body);
    return json.contains("choices") ? json["choices"][0] : json;
  }

 private:
  static ApiOptions options_of(const ApiSetup& setup) {
    ApiOptions options;
    options.model.id = "toy";
    options.model.created = 1'700'000'000;
    options.model.words = setup.words ? setup.words : words_of_bytes(chat_template_path());
    options.model.vocab = setup.script.vocab;
    options.model.max_context = setup.script.max_context;
    options.model.longest = setup.longest;
    options.model.make_grammar = [](const Json& schema) {
      return make_grammar(compile_schema(schema), TokenBytes::single_bytes(), {kEndByte});
    };
    options.api_key = setup.api_key;
    options.loopback_only = setup.loopback_only;
    options.readiness = setup.readiness;
    return options;
  }

  ScriptedGenerator generator_;
  ServeApi api_;
  std::unique_ptr<http::Server> server_;
};

// The data of all events in the body of a response.
inline std::vector<std::string> events_of(const std::string& body) {
  std::vector<std::string> events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find("\n\n", at), body.size());
    const std::string event = body.substr(at, end - at);
    if (event.starts_with("data: ")) events.push_back(event.substr(6));
    at = end + 2;
  }
  return events;
}

// What the first choice of a stream said, whole.
inline std::string text_of_stream(const std::string& body, int index = 0) {
  std::string text;
  for (const std::string& event : events_of(body)) {
    const Json json = Json::parse(event, nullptr, false);
    if (!json.is_object() || !json.contains("choices")) continue;
    for (const Json& choice : json["choices"]) {
      if (choice["index"] != index) continue;
      const Json& more =
          choice.contains("delta") ? choice["delta"].value("content", Json("")) : choice["text"];
      text += more.get<std::string>();
    }
  }
  return text;
}

// A request whose response is read bit by bit.
class OpenRequest {
 public:
  OpenRequest(const ApiServer& server, const std::string& path, const Json& body,
              int receive_bytes = 0)
      : client_(server.port(), receive_bytes) {
    client_.send(server.request(path, body.dump()));
  }
  // Whether this came, beside all that came before it.
  bool saw(const std::string& text) {
    const auto has = [&](const std::string& all) { return all.find(text) != std::string::npos; };
    if (has(read_)) return true;
    read_ +=
        client_.read_until([&](std::string_view more) { return has(read_ + std::string(more)); });
    return has(read_);
  }
  std::string to_end() { return read_ += client_.read_to_end(); }
  [[nodiscard]] http::TestClient& client() { return client_; }

 private:
  http::TestClient client_;
  std::string read_;
};

}  // namespace tessera::serve::testing
