#include "http/router.h"

#include <utility>

#include "base/failure.h"
#include "base/text/printable.h"

namespace tessera::http {
namespace {

bool is_capture(const std::string& segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}

Response answer(const Handler& handler, const Request& request, WriteError write_error) {
  try {
    return handler(request);
  } catch (const Refusal& refusal) {
    return refusal.response(write_error);
  } catch (const ConfigError& error) {
    return write_error(400, "bad_request", error.what());
  } catch (const std::exception& error) {
    return write_error(500, "internal", failure_of(error).text);
  }
}

}  // namespace

void Router::add(std::string method, std::string_view pattern, Handler handler) {
  const auto target = parse_target(pattern);
  TESSERA_CHECK(target.has_value(), "'{}' is no path", pattern);
  routes_.push_back({std::move(method), target->segments, std::move(handler)});
}

bool Router::fits(const Route& route, const Request& request, Words& captured) {
  if (route.segments.size() != request.segments.size()) return false;
  for (size_t i = 0; i < route.segments.size(); ++i) {
    const std::string& wanted = route.segments[i];
    if (is_capture(wanted)) {
      captured[wanted.substr(1, wanted.size() - 2)] = request.segments[i];
    } else if (wanted != request.segments[i]) {
      return false;
    }
  }
  return true;
}

Response Router::route(Request request) const {
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  std::string allowed;
  for (const Route& route : routes_) {
    Words captured;
    if (!fits(route, request, captured)) continue;
    if (route.method == method) {
      request.captured = std::move(captured);
      return answer(route.handler, request, write_error_);
    }
    if (!allowed.empty()) allowed += ", ";
    allowed += route.method == "GET" ? "GET, HEAD" : route.method;
  }
  if (allowed.empty()) {
    return write_error_(404, "not_found",
                        fmt::format("there is nothing at '{}'", shortened(request.path())));
  }
  Response refused = write_error_(405, "method_not_allowed",
                                  fmt::format("'{}' takes {}, not {}", shortened(request.path()),
                                              allowed, shortened(request.method, 20)));
  refused.fields.emplace_back("Allow", allowed);
  return refused;
}

}  // namespace tessera::http
