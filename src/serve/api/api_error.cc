#include "serve/api/api_error.h"

#include <nlohmann/json.hpp>

namespace tessera::serve {
namespace {

std::string_view type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
    case 421:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 500:
      return "server_error";
    case 503:
      return "service_unavailable_error";
    case 504:
      return "timeout_error";
    default:
      return "invalid_request_error";
  }
}

}  // namespace

std::string ApiError::body() const {
  nlohmann::ordered_json error = {{"message", what()}, {"type", type_of(status_)}};
  error["param"] = param_.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(param_);
  error["code"] = name_;
  const nlohmann::ordered_json json = {{"error", error}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

http::Response ApiError::response() const {
  http::Response response = http::Response::text(status_, "application/json", body() + "\n");
  if (retry_after > 0) response.fields.emplace_back("Retry-After", std::to_string(retry_after));
  if (status_ == 401) response.fields.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

http::Response write_api_error(int status, std::string_view code, std::string_view message) {
  return ApiError(status, std::string(code), "", std::string(message)).response();
}

}  // namespace tessera::serve
