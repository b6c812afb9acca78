// What a client is told of a request that cannot be answered, as clients of OpenAI read it:
// {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "http/message.h"

namespace tessera::serve {

class ApiError : public Error {
 public:
  // `param`: the field that it is about; empty: none.
  ApiError(int status, std::string code, std::string param, const std::string& message)
      : Error(message), status_(status), name_(std::move(code)), param_(std::move(param)) {}

  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::string body() const;  // JSON
  [[nodiscard]] http::Response response() const;

  // Seconds until it may be worth to ask again; 0: it does not say.
  int retry_after = 0;

 private:
  int status_;
  std::string name_, param_;
};

template <typename... Args>
[[noreturn]] void refuse_field(std::string_view param, fmt::format_string<Args...> format,
                               Args&&... args) {
  throw ApiError(400, "invalid_value", std::string(param),
                 fmt::format(format, std::forward<Args>(args)...));
}

// For http::ServerOptions and http::Router.
http::Response write_api_error(int status, std::string_view code, std::string_view message);

}  // namespace tessera::serve
