// A number that the planner did not compute: where it comes from travels with it, so that a report
// can say what was measured and what was guessed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

enum class Provenance : uint8_t {
  kVendor,    // a data sheet
  kMeasured,  // by `tessera calibrate` or by the named source
  kFitted,    // to published runs, all of a device together
  kDefault,   // a guess that nothing contradicted yet
  kCounted,   // from what programs do, by hand or by a test
  kBorrowed,  // of another engine, since ours could not be measured
};
inline constexpr std::array kAllProvenances = {Provenance::kVendor,  Provenance::kMeasured,
                                               Provenance::kFitted,  Provenance::kDefault,
                                               Provenance::kCounted, Provenance::kBorrowed};
std::string_view name_of(Provenance provenance);

struct Constant {
  double value = 0;
  Provenance provenance = Provenance::kDefault;
  std::string source = "";  // a sentence: which data sheet, which table
};

}  // namespace tessera
