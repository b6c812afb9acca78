// Who may ask a server of answers. Pure.
#pragma once

#include <optional>
#include <string>

#include "http/message.h"

namespace tessera::serve {

struct RequestAccess {
  std::string api_key;        // empty: none is asked for
  bool loopback_only = true;  // only names of the loopback may stand in Host
};

// Throws ConfigError for a key that is too short, or has characters that a header or link may not.
void require_usable_key(const std::string& key);

// Nothing: it may. Else the response: 421 for a foreign Host, 403 where a page of another site
// asks, 401 without the key. The key comes as "Authorization: Bearer", or from the page at / in the
// cookie that ?token= has set (303).
std::optional<http::Response> refusal_of(const http::Request& request, const RequestAccess& access);

}  // namespace tessera::serve
