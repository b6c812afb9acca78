// Which handler answers which request, by method and path.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace tessera::http {

using Handler = std::function<Response(const Request&)>;

class Router {
 public:
  explicit Router(WriteError write_error = &Response::error) : write_error_(write_error) {}

  // `pattern`: "/api/runs/{id}/plan"; what stands in the place of {id} is in Request::captured.
  // HEAD is answered by the handler of GET, and the server leaves out the body.
  void add(std::string method, std::string_view pattern, Handler handler);
  void get(std::string_view pattern, Handler handler) { add("GET", pattern, std::move(handler)); }

  // Never throws: a handler's Refusal is the response that it holds, ConfigError is 400, and any
  // other failure 500. 404 where no pattern fits, 405 with Allow where only the method does not.
  [[nodiscard]] Response route(Request request) const;

 private:
  struct Route {
    std::string method;
    std::vector<std::string> segments;
    Handler handler;
  };
  [[nodiscard]] static bool fits(const Route& route, const Request& request, Words& captured);

  WriteError write_error_;
  std::vector<Route> routes_;
};

}  // namespace tessera::http
