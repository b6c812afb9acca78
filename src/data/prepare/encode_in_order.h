// Units are read by one thread, encoded by several, and handed on in their order.
#pragma once

#include <cstdint>
#include <functional>

#include "data/prepare/encode_unit.h"
#include "data/prepare/work_unit.h"
#include "data/tokenizer/tokenizer.h"

namespace tessera {

// `take` is called on this thread, for one unit after another, and ends the work by false or by
// throwing. A failure of the reader or of an encoder reaches it in its place, as
// EncodedUnit::failure. Units that are on their way are bounded in bytes.
void encode_in_order(UnitReader& reader, const Tokenizer& tokenizer, const EncodeOptions& options,
                     int64_t threads, const std::function<bool(EncodedUnit)>& take);

}  // namespace tessera
