// Tokens between the braces of a tag.
#pragma once

#include <vector>

#include "data/template/syntax/lexer.h"
#include "data/template/syntax/source_cursor.h"

namespace tessera::jinja {

// Reads the next token of an expression; the cursor stands on no white space and not at the end of
// the tag. Throws ConfigError for what begins none.
Token read_code_token(SourceCursor& cursor, const Place& place);

}  // namespace tessera::jinja
