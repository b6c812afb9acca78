#include "studio/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/text/printable.h"
#include "studio/line_follower.h"
#include "studio/run_files.h"
#include "studio/run_journal.h"

namespace tessera {
namespace {

using http::Refusal;
using http::Request;
using http::Response;
using nlohmann::ordered_json;

constexpr int kRunsSchema = 1;
constexpr int64_t kMostFileBytes = int64_t{256} << 20;

Response json_response(const ordered_json& json) {
  Response response =
      Response::json(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  response.fields.emplace_back("Cache-Control", "no-store");
  return response;
}

RunEntry run_of(const StudioState& state, const Request& request) {
  const std::string& id = request.captured.at("id");
  auto run = state.runs.find(id);
  if (!run.has_value()) {
    throw Refusal(404, "not_found",
                  fmt::format("there is no run '{}': api/runs lists them", shortened(id, 80)));
  }
  return *std::move(run);
}

Response list_runs(StudioState& state) {
  std::vector<ordered_json> runs;
  for (const RunEntry& run : state.runs.list()) runs.push_back(state.facts.of(run));
  const auto updated = [](const ordered_json& run) {
    return run.at("updated").is_null() ? 0.0 : run.at("updated").get<double>();
  };
  std::stable_sort(runs.begin(), runs.end(), [&](const ordered_json& a, const ordered_json& b) {
    return updated(a) > updated(b);
  });
  std::vector<std::string> folders;
  for (const std::string& folder : state.runs.folders()) folders.push_back(printable(folder));
  return json_response({{"schema_version", kRunsSchema},
                        {"kind", "runs"},
                        {"version", TESSERA_VERSION},
                        {"folders", folders},
                        {"runs", runs}});
}

Response send_file(const StudioState& state, const Request& request, const std::string& name,
                   std::string_view type) {
  const RunEntry run = run_of(state, request);
  auto text = read_run_file(run.path, name, kMostFileBytes);
  if (!text.has_value()) {
    throw Refusal(404, "not_found", fmt::format("'{}' has no {}", run.folder, name));
  }
  Response response = Response::text(200, type, *std::move(text));
  response.fields.emplace_back("Cache-Control", "no-store");
  return response;
}

// Where the reader says that it is: its last event goes before the link.
LinePlace place_of(const Request& request) {
  const std::string* last = request.field("last-event-id");
  const auto from = request.query.find("from");
  std::string text = "0";
  if (from != request.query.end()) text = from->second;
  if (last != nullptr && !last->empty()) text = *last;
  const auto place = parse_line_place(text);
  if (!place.has_value()) {
    throw Refusal(400, "bad_request",
                  fmt::format("'{}' is no place in the metrics: give the id of an event, or the "
                              "number of a line",
                              shortened(text, 80)));
  }
  return *place;
}

Response follow(StudioState& state, const Request& request) {
  Response response = Response::text(200, "text/event-stream", "");
  response.fields.emplace_back("Cache-Control", "no-store");
  response.fields.emplace_back("X-Accel-Buffering", "no");  // proxies pass events on at once
  response.events =
      std::make_shared<LineFollower>(run_of(state, request), place_of(request), state.facts);
  return response;
}

// A whole number of the query, between two others.
int64_t whole_of(const Request& request, const char* name, int64_t usual, int64_t least,
                 int64_t most) {
  const auto found = request.query.find(name);
  if (found == request.query.end()) return usual;
  const std::string& text = found->second;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc() && end == text.data() + text.size();
  if (!good || value < least || value > most) {
    throw Refusal(400, "bad_request",
                  fmt::format("{} is '{}': give a whole number from {} to {}", name,
                              shortened(text, 40), least, most));
  }
  return value;
}

SeriesQuery series_query(const Request& request) {
  constexpr int64_t kMostStep = 1'000'000'000'000'000;
  SeriesQuery query;
  query.from = whole_of(request, "from", 0, 0, kMostStep);
  query.to = whole_of(request, "to", kMostStep, 0, kMostStep);
  query.points = whole_of(request, "points", query.points, 10, 10'000);
  const auto keys = request.query.find("keys");
  std::string_view rest = keys == request.query.end() ? std::string_view() : keys->second;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    query.keys.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return query;
}

http::Router studio_routes(StudioState& state) {
  http::Router router;
  const auto page = [&state](const Request& request) { return state.page.respond(request); };
  router.get("/", page);
  router.get("/index.html", page);
  router.get("/studio.html", page);
  router.get("/favicon.ico", [](const Request&) {
    Response response;
    response.status = 204;
    return response;
  });
  router.get("/api/runs", [&state](const Request&) { return list_runs(state); });
  const auto file = [&](const std::string& pattern, const std::string& name,
                        const std::string& type) {
    router.get(pattern, [&state, name, type](const Request& request) {
      return send_file(state, request, name, type);
    });
  };
  file("/api/runs/{id}/plan", "plan.json", "application/json");
  file("/api/runs/{id}/summary", "summary.json", "application/json");
  file("/api/runs/{id}/resolved", "resolved.json", "application/json");
  file("/api/runs/{id}/config", "config.toml", "text/plain; charset=utf-8");
  router.get("/api/runs/{id}/series", [&state](const Request& request) {
    return json_response(state.histories.series(run_of(state, request), series_query(request)));
  });
  router.get("/api/runs/{id}/journal", [&state](const Request& request) {
    return json_response(journal_of(run_of(state, request).path));
  });
  router.get("/api/runs/{id}/events",
             [&state](const Request& request) { return follow(state, request); });
  return router;
}

}  // namespace

http::Handler studio_handler(StudioState& state, const http::AccessRules& rules) {
  return [router = studio_routes(state), rules](const Request& request) {
    if (auto refusal = http::refusal_of(request, rules)) return *std::move(refusal);
    return router.route(request);
  };
}

}  // namespace tessera
