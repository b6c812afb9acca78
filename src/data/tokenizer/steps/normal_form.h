// Unicode normal forms, with the way of every character. The data is that of libutf8proc, less
// the characters that are newer than the reference library's normal forms (Unicode 9): those stay
// as they are.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/tokenizer/common/piece.h"

namespace tessera {

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// False: the text is in the form already. Quick, and right for texts that are, nearly always.
bool may_change(NormalForm form, std::string_view text);

// The characters of the form of `text`, which is valid UTF-8.
std::vector<Change> normalized(NormalForm form, std::string_view text);

}  // namespace tessera
