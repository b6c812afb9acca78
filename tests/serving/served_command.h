// `tessera serve` as a process of a test, and its clients.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "http/testing/client.h"
#include "support/command.h"
#include "support/processes.h"

namespace tessera::testing {

using nlohmann::json;

inline std::string model_of_source(const std::string& name) {
  return std::string(TESSERA_SOURCE_DIR) + "/tests/data/hf/" + name;
}

// A request under way.
class AskedServer {
 public:
  AskedServer(uint16_t port, const std::string& path, const json& body,
              const std::string& fields = "")
      : client_(port) {
    const std::string text = body.dump();
    client_.send(
        fmt::format("POST {} HTTP/1.1\r\nHost: localhost:{}\r\nContent-Length: {}\r\n"
                    "Connection: close\r\n{}\r\n{}",
                    path, port, text.size(), fields, text));
  }
  // Whether anything of the answer came.
  bool has_begun() {
    read_ += client_.read_until([](std::string_view text) { return !text.empty(); });
    return !read_.empty();
  }
  http::TestResponse response(
      std::chrono::milliseconds patience = std::chrono::milliseconds(60'000)) {
    read_ += client_.read_to_end(patience);
    return http::parse_response(read_);
  }

 private:
  http::TestClient client_;
  std::string read_;
};

// All ids of the first choice of a stream, and why it ended: "" where it did not, "error: CODE".
struct StreamedIds {
  std::vector<int32_t> ids;
  std::string reason;
  bool done = false;  // [DONE] came
};
inline StreamedIds ids_of_stream(const std::string& body) {
  StreamedIds streamed;
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find("\n\n", at), body.size());
    const std::string event = body.substr(at, end - at);
    at = end + 2;
    if (event == "data: [DONE]") streamed.done = true;
    const json data =
        event.starts_with("data: ") ? json::parse(event.substr(6), nullptr, false) : json();
    if (data.contains("error")) {
      streamed.reason = "error: " + data["error"]["code"].get<std::string>();
    }
    if (!data.contains("choices") || data["choices"].empty()) continue;
    const json& choice = data["choices"][0];
    for (const json& id : choice["token_ids"]) streamed.ids.push_back(id);
    if (choice["finish_reason"].is_string()) streamed.reason = choice["finish_reason"];
  }
  return streamed;
}

class ServedCommandTest : public CommandTest {
 protected:
  // A small model that writes long texts: `serve` of it takes seconds for an answer of thousands.
  std::string long_model() {
    const std::filesystem::path from = model_of_source("llama-gqa");
    std::filesystem::create_directories(folder_.path("long"));
    std::filesystem::copy_file(from / "model.safetensors", folder_.path("long/model.safetensors"),
                               std::filesystem::copy_options::overwrite_existing);
    json config = json::parse(read_file((from / "config.json").string()));
    config["max_position_embeddings"] = 8192;
    folder_.write("long/config.json", config.dump());
    return folder_.path("long");
  }

  void serve(const std::string& line, const std::vector<std::string>& environment = {}) {
    CommandOptions options;
    options.output = std::to_string(++servers_);
    options.environment = environment;
    server_ = std::make_unique<Command>(folder_, words_of("serve " + line + " --port 0"), options);
    const std::string start = "listening on http://127.0.0.1:";
    ASSERT_TRUE(wait_until([&] { return out().ends_with("\n") || !is_running(server_->pid()); }))
        << err();
    ASSERT_TRUE(out().starts_with(start)) << out() << err();
    port_ = static_cast<uint16_t>(std::stoi(out().substr(start.size())));
  }
  [[nodiscard]] std::string out() const {
    return read_file(folder_.path(".stdout" + std::to_string(servers_)));
  }
  [[nodiscard]] std::string err() const {
    return read_file(folder_.path(".stderr" + std::to_string(servers_)));
  }

  [[nodiscard]] std::unique_ptr<AskedServer> ask(const json& body,
                                                 const std::string& fields = "") const {
    return std::make_unique<AskedServer>(port_, "/v1/completions", body, fields);
  }
  // The ids of a greedy answer.
  [[nodiscard]] std::vector<int32_t> greedy(const std::vector<int32_t>& prompt, int tokens) const {
    const auto response = ask({{"prompt", prompt},
                               {"max_tokens", tokens},
                               {"temperature", 0},
                               {"ignore_eos", true},
                               {"return_token_ids", true}})
                              ->response();
    const json answer = json::parse(response.body, nullptr, false);
    if (!answer.contains("choices")) {
      ADD_FAILURE() << response.status << response.body;
      return {};
    }
    return answer["choices"][0]["token_ids"];
  }
  [[nodiscard]] bool is_ready() const { return http::fetch(port_, "/health/ready").status == 200; }

  std::unique_ptr<Command> server_;
  uint16_t port_ = 0;
  int servers_ = 0;
};

}  // namespace tessera::testing
