// Units are read by one thread, encoded by several, and handed on in their order.
#pragma once

#include <cstdint>
#include <functional>

#include "data/prepare/encode_unit.h"
#include "data/prepare/work_unit.h"
#include "data/tokenizer/tokenizer.h"

namespace tessera {

// A unit on its way. There is a fixed number of them, whose memory goes round.
struct UnitUnderWay {
  WorkUnit work;
  EncodedUnit encoded;
  size_t extra_bytes = 0;  // beyond what every unit has, taken from what all of them share
};

struct OrderLimits {
  int64_t threads = 1;  // that encode
  // What units may take together beyond what every one has: lines of JSON that are longer than a
  // unit, tokens that take more than their text. A unit that all others wait for may take more.
  size_t extra_bytes = size_t{64} << 20;
};

// `take` is called on this thread, for one unit after another, and ends the work by false or by
// throwing. A failure of the reader or of an encoder reaches it in its place, as
// EncodedUnit::failure.
void encode_in_order(UnitReader& reader, const Tokenizer& tokenizer, const EncodeOptions& options,
                     const OrderLimits& limits,
                     const std::function<bool(const UnitUnderWay&)>& take);

}  // namespace tessera
