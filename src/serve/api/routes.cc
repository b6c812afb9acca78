#include "serve/api/routes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <utility>

#include "base/text/printable.h"
#include "serve/api/answer_json.h"
#include "serve/api/api_error.h"
#include "serve/api/chat_page.h"
#include "serve/api/request_access.h"
#include "serve/api/response_sinks.h"

namespace tessera::serve {
namespace {

using http::Request;
using http::Response;
using Json = nlohmann::ordered_json;

constexpr size_t kBodyBytes = size_t{2} << 20;
constexpr int kMostConnections = 1024;
constexpr int kSpareConnections = 32;  // so that a full server still says how it is
constexpr int kEventBufferBytes = 64 << 10;
constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

// Tells the requests of one server from those of others.
std::string random_start() {
  std::random_device device;
  return fmt::format("{:08x}", device());
}

ApiOptions checked(ApiOptions options) {
  if (!options.api_key.empty()) require_usable_key(options.api_key);
  return options;
}

Response no_store(Response response) {
  response.fields.emplace_back("Cache-Control", "no-store");
  return response;
}

Json model_json(const ServedModel& model) {
  return {{"id", model.id},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "tessera"},
          {"max_model_len", model.max_context},
          {"vocab_size", model.vocab},
          {"has_text", model.words->has_text()},
          {"has_chat", model.words->has_chat()}};
}

}  // namespace

ServeApi::ServeApi(Generator& generator, ApiOptions options)
    : generator_(generator),
      options_(checked(std::move(options))),
      id_start_(random_start()),
      readiness_(generator, options_.readiness),
      desk_(generator, metrics_, *options_.model.words, options_.workers),
      router_(make_router()) {}

ServeApi::~ServeApi() = default;

http::ServerOptions ServeApi::server_options() const {
  http::ServerOptions server;
  server.body_bytes = kBodyBytes;
  server.most_connections = kMostConnections;
  server.spare_connections = kSpareConnections;
  server.event_buffer_bytes = kEventBufferBytes;
  // Events wake their stream; this is for pings and those that end.
  server.poll_interval = std::chrono::milliseconds(1000);
  server.write_error = &write_api_error;
  server.at_once = [](const Request& request) {
    return !request.segments.empty() &&
           (request.segments[0] == "health" || request.segments[0] == "metrics");
  };
  // A schema may take seconds to be compiled.
  server.is_slow = [](const Request& request) {
    return request.body.find("\"json_schema\"") != std::string::npos;
  };
  server.fields = chat_page_fields();
  return server;
}

http::Handler ServeApi::handler() {
  return [this](const Request& request) { return handle(request); };
}

http::Router ServeApi::make_router() {
  http::Router router(&write_api_error);
  router.get("/", [](const Request&) { return chat_page(); });
  router.get("/favicon.ico", [](const Request&) {
    Response response;
    response.status = 204;
    return response;
  });
  router.get("/health/live",
             [](const Request&) { return no_store(Response::json("{\"status\":\"live\"}\n")); });
  router.get("/health/ready", [this](const Request&) { return ready(); });
  router.get("/metrics", [this](const Request&) { return metrics(); });
  router.get("/v1/models", [this](const Request&) { return models(); });
  router.get("/v1/models/{id}",
             [this](const Request& request) { return model(request.captured.at("id")); });
  router.add("POST", "/v1/completions",
             [this](const Request& request) { return answer(request, Shape::kCompletion); });
  router.add("POST", "/v1/chat/completions",
             [this](const Request& request) { return answer(request, Shape::kChat); });
  return router;
}

http::Response ServeApi::handle(const Request& request) {
  const bool is_live = request.segments == std::vector<std::string>{"health", "live"};
  std::optional<Response> refused;
  if (!is_live) refused = refusal_of(request, {options_.api_key, options_.loopback_only});
  Response response = refused.has_value() ? *std::move(refused) : router_.route(request);
  // Those that come later count themselves.
  const bool whole = response.later == nullptr && response.events == nullptr;
  if (whole) metrics_.response(response.status);
  if (options_.log && request.method == "POST") {
    options_.log(fmt::format("{} {} {} bytes: {}", request.method, shortened(request.path(), 60),
                             request.body.size(),
                             whole ? std::to_string(response.status) : "begun"));
  }
  return response;
}

http::Response ServeApi::answer(const Request& request, Shape shape) {
  try {
    if (draining_) {
      throw ApiError(503, "shutting_down", "", "this server is ending: it takes no new requests");
    }
    const bool chat = shape == Shape::kChat;
    auto asked =
        std::make_shared<const Asked>(chat ? read_chat(request.body, options_.model)
                                           : read_completion(request.body, options_.model));
    ResponseContext context{std::move(asked),
                            {},
                            options_.model.words,
                            &metrics_,
                            std::make_shared<OpenResponse>(open_)};
    context.head.id =
        fmt::format("{}-{}{:08x}", chat ? "chatcmpl" : "cmpl", id_start_, ++requests_);
    context.head.model = options_.model.id;
    context.head.created = std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
    return respond_later(desk_, std::move(context));
  } catch (const ApiError& error) {
    return error.response();
  }
}

http::Response ServeApi::models() const {
  const Json json = {{"object", "list"}, {"data", Json::array({model_json(options_.model)})}};
  return no_store(Response::json(dump(json) + "\n"));
}

http::Response ServeApi::model(const std::string& id) const {
  if (id == options_.model.id) {
    return no_store(Response::json(dump(model_json(options_.model)) + "\n"));
  }
  return ApiError(404, "model_not_found", "model",
                  fmt::format("there is no model '{}': this server has '{}'", shortened(id, 80),
                              options_.model.id))
      .response();
}

http::Response ServeApi::ready() const {
  const std::string why = readiness_.why_not();
  if (why.empty()) return no_store(Response::json("{\"status\":\"ready\"}\n"));
  return no_store(write_api_error(503, "not_ready", why));
}

http::Response ServeApi::metrics() const {
  return no_store(Response::text(
      200, kMetricsType,
      metrics_.text(generator_.stats(), options_.model.id, open(), readiness_.why_not().empty())));
}

void ServeApi::begin_drain() {
  draining_ = true;
  readiness_.drain();
}

bool ServeApi::wait_until_answered(std::chrono::milliseconds longest) const {
  const auto deadline = std::chrono::steady_clock::now() + longest;
  while (open() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return open() == 0;
}

}  // namespace tessera::serve
