// The conversation of a request, as chat templates want it.
#pragma once

#include <string>

#include "serve/api/body_fields.h"
#include "serve/api/words.h"

namespace tessera::serve {

inline constexpr size_t kMostMessages = 4096;

// Reads "messages" and what else a template may be told, and renders them: the prompt, as text.
// Throws ApiError, and ConfigError for what the template refuses.
std::string read_conversation(BodyFields& fields, const Words& words);

}  // namespace tessera::serve
