// Text for a terminal that is narrower than the text. Pure.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// `text` in lines of at most `columns` characters, as far as that can be. 0: unchanged.
// Tables (a header line, a rule of dashes, rows) that are wider go on below: their columns are
// stacked in blocks, each behind the first column (the first two, where one does not tell rows
// apart), or where not even two are side by side, row by row with a line for each cell. Other lines
// are broken at spaces, except commands and flags: they are there to be copied.
std::string fit_width(std::string_view text, size_t columns);

// At most `columns` characters of fields that " | " separates: those at the end are left out.
std::string cut_fields(std::string_view text, size_t columns);

}  // namespace tessera
