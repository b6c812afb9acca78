// The page at /: a conversation with the model, in one file of HTML.
#pragma once

#include <string_view>

#include "http/message.h"

namespace tessera {

// page/chat.html, as the library holds it (cmake/embed.cmake).
std::string_view embedded_chat_page();

}  // namespace tessera

namespace tessera::serve {

http::Response chat_page();
// What every response of the server carries: what a browser may do with the page.
http::Fields chat_page_fields();

}  // namespace tessera::serve
