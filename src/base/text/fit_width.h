// Text for a terminal that is narrower than the text. Pure.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// `text` in lines of at most `columns` characters, as far as that can be. 0: unchanged.
// Tables (a header line, a rule of dashes, rows) that are wider go on below: their columns are
// stacked in blocks, each behind the first column (the first two, where one does not tell rows
// apart); text in a column that is wider than a block is broken inside its column. Where not even
// two are side by side, row by row with a line for each cell. Other lines are broken at spaces, but
// not between a number and its unit; commands and flags stay whole: they are there to be copied.
std::string fit_width(std::string_view text, size_t columns);

// At most `columns` characters of fields that " | " separates: those at the end are left out. The
// first one is cut, with a mark, where not even that fits.
std::string cut_fields(std::string_view text, size_t columns);

}  // namespace tessera
