// A request and the response to it, as handlers see them: no sockets, no threads. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "http/event_source.h"
#include "http/later_response.h"

namespace tessera::http {

using Fields = std::vector<std::pair<std::string, std::string>>;
using Words = std::map<std::string, std::string, std::less<>>;

struct Request {
  std::string method;                 // "GET"
  std::vector<std::string> segments;  // of the path, decoded: /api/runs/a%20b -> api, runs, "a b"
  Words query;                        // decoded; of a name that is given twice, the first
  Fields fields;                      // headers, names in lower case, in their order
  std::string body;
  Words captured;     // by the router's pattern: {id}
  uint16_t port = 0;  // that it came in on

  // Null: there is none. Of a field that is given twice, the first.
  [[nodiscard]] const std::string* field(std::string_view lower_case_name) const;
  [[nodiscard]] std::string path() const;  // decoded, for messages and for links within the server
};

struct Response {
  int status = 200;
  Fields fields;  // Content-Length and Connection come by themselves
  std::string body;
  std::shared_ptr<EventSource> events;   // where it is set, the body is this stream
  std::shared_ptr<LaterResponse> later;  // where it is set, what it is given stands for all of this

  static Response text(int status, std::string_view content_type, std::string body);
  static Response json(std::string body);
  // {"error": {"code": …, "message": …}}
  static Response error(int status, std::string_view code, std::string_view message);
};

// How a server words its own refusals: Response::error, or what its clients expect instead.
using WriteError = Response (*)(int status, std::string_view code, std::string_view message);

// Thrown by a handler instead of a response.
class Refusal : public Error {
 public:
  Refusal(int status, std::string code, const std::string& message)
      : Error(message), status_(status), name_(std::move(code)) {}
  [[nodiscard]] Response response(WriteError write) const { return write(status_, name_, what()); }

 private:
  int status_;
  std::string name_;
};

// Takes the target of a request line apart into segments and query. Nothing where it is none of
// ours: no path, "." or ".." in it, a broken or forbidden escape, text that is no UTF-8.
struct Target {
  std::vector<std::string> segments;
  Words query;
};
std::optional<Target> parse_target(std::string_view target);

// Whether the client wants it compressed by gzip.
bool accepts_gzip(const Request& request);

std::string_view reason_of(int status);  // "Not Found"

// Status line and fields, up to the empty line. `length`: of the body; none: until the connection
// ends. Fields that could break out of their line are left out.
std::string head_of(const Response& response, std::optional<size_t> length, bool keep_alive);

}  // namespace tessera::http
