// Who may ask: by the name under which a browser thinks it speaks to us, and by a token. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace tessera::http {

struct AccessRules {
  // Only loopback names and the port that it came in on may stand in Host: a page of another site
  // whose name was pointed at 127.0.0.1 (DNS rebinding) still sends its own name.
  bool loopback_only = true;
  std::string token;        // empty: none is asked for
  std::string cookie_name;  // of the cookie that keeps the token, without the port
};

// "localhost", "127.0.0.1", any other address of 127/8, "[::1]"; with `port`, which may be left out
// only where it is 80. In any case of letters.
bool is_loopback_host(std::string_view host, uint16_t port);

// Equal, in a time that depends on the lengths alone.
bool equal_in_constant_time(std::string_view a, std::string_view b);

// Whether a token is long enough and can stand in a link and a cookie; throws ConfigError with what
// is wanted.
void require_usable_token(std::string_view token);

// Nothing: it may. Else the response: 421 for a foreign Host, 401 without the token, or, for a
// first visit with ?token=, the way to the same page without it (303), with the cookie. The token
// may also come as "Authorization: Bearer".
std::optional<Response> refusal_of(const Request& request, const AccessRules& rules);

}  // namespace tessera::http
