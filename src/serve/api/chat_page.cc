#include "serve/api/chat_page.h"

#include <string>

#include "http/content_policy.h"

namespace tessera::serve {

http::Response chat_page() {
  http::Response response =
      http::Response::text(200, "text/html; charset=utf-8", std::string(embedded_chat_page()));
  response.fields.emplace_back("Cache-Control", "no-cache");
  return response;
}

http::Fields chat_page_fields() {
  return {{"Content-Security-Policy", http::content_policy(embedded_chat_page())},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"}};
}

}  // namespace tessera::serve
