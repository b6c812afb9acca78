#include "api/show/numbers.h"

#include <algorithm>
#include <cmath>

#include "api/show/values.h"
#include "base/dtype.h"
#include "base/master_weight.h"
#include "base/number_format.h"
#include "base/text/text.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ShowField::Kind;

constexpr int64_t kMostPoints = 500;  // of a curve

constexpr ShowField kNumbersFields[] = {
    {"value", Kind::kReal, "0.1", "the number to store; also the weight before the updates", -1e39,
     1e39},
    {"update", Kind::kReal, "1e-4", "what every step adds to the weight", -1e39, 1e39},
    {"steps", Kind::kWhole, "100", "how many updates", 1, 100'000},
};

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "infinity" : "-infinity";
  return fmt::format("{}", value);
}

// The distance between neighbours where `stored` lies.
double spacing_at(const NumberFormat& format, uint32_t bits) {
  const double stored = std::abs(decode(format, bits));
  const double above = std::abs(next_above(format, encode(format, stored)));
  return std::isfinite(above) ? above - stored
                              : stored - next_below(format, encode(format, stored));
}

Json type_json(const NumberFormat& format, double value) {
  const uint32_t bits = encode(format, value);
  const double stored = decode(format, bits);
  const BitFields fields = fields_of(format, bits);
  Json json = {{"name", format.name},
               {"bits", format.bits()},
               {"sign", fields.sign},
               {"exponent", fields.exponent},
               {"mantissa", fields.mantissa},
               {"hex", fmt::format("{:0{}x}", bits, format.bits() / 4)},
               {"stored", finite_or_null(stored)},
               {"stored_text", number_text(stored)}};
  const bool finite = std::isfinite(stored);
  json["error"] = finite ? Json(stored - value) : Json();
  json["relative_error"] = finite && value != 0 ? Json((stored - value) / value) : Json();
  json["next_below"] = finite ? finite_or_null(next_below(format, bits)) : Json();
  json["next_above"] = finite ? finite_or_null(next_above(format, bits)) : Json();
  json["spacing_at_value"] = finite ? Json(spacing_at(format, bits)) : Json();
  json["max"] = format.largest();
  json["min_normal"] = format.smallest_normal();
  json["min_subnormal"] = format.smallest_subnormal();
  return json;
}

// A weight in three ways: as bf16 alone, as bf16 with the rest of its master beside it (what
// training keeps), and as f32.
struct Weights {
  BFloat16 alone;
  BFloat16 copy;
  int16_t rest = 0;
  float f32 = 0;

  explicit Weights(float value) : alone(value), copy(value), f32(value) {
    rest = rest_of_master(value, copy.bits);
  }
  // Whether the weight without a master has changed.
  bool update(float by) {
    const uint16_t before = alone.bits;
    alone = BFloat16(static_cast<float>(alone) + by);
    const float master = master_weight(copy.bits, rest) + by;
    copy = BFloat16(master);
    rest = rest_of_master(master, copy.bits);
    f32 += by;
    return alone.bits != before;
  }
};

struct Updates {
  Json bf16 = Json::array(), master = Json::array(), f32 = Json::array();  // [step, weight]
  int64_t lost = 0;
  Weights end;
  double wanted = 0;  // without any rounding
};

Updates updated(const ShowValues& values) {
  const int64_t steps = values.whole("steps");
  const auto by = static_cast<float>(values.real("update"));
  Updates updates{.end = Weights(static_cast<float>(values.real("value")))};
  const int64_t every = std::max<int64_t>(1, (steps + kMostPoints - 1) / kMostPoints);
  const auto note = [&](int64_t step) {
    updates.bf16.push_back({step, static_cast<float>(updates.end.alone)});
    updates.master.push_back({step, static_cast<float>(updates.end.copy)});
    updates.f32.push_back({step, updates.end.f32});
  };
  note(0);
  for (int64_t step = 1; step <= steps; ++step) {
    if (!updates.end.update(by)) ++updates.lost;
    if (step % every == 0 || step == steps) note(step);
  }
  updates.wanted = values.real("value") + static_cast<double>(steps) * values.real("update");
  return updates;
}

Json numbers_answer(const ShowValues& values, const Surroundings&) {
  const double value = values.real("value");
  Json types = Json::array();
  for (const NumberFormat& format : number_formats()) types.push_back(type_json(format, value));
  Updates updates = updated(values);
  return {{"value", value},
          {"types", std::move(types)},
          {"updates",
           {{"update", values.real("update")},
            {"steps", values.whole("steps")},
            {"bf16", std::move(updates.bf16)},
            {"master", std::move(updates.master)},
            {"f32", std::move(updates.f32)},
            {"lost", updates.lost},
            {"bf16_weight", finite_or_null(static_cast<float>(updates.end.alone))},
            {"master_weight", finite_or_null(static_cast<float>(updates.end.copy))},
            {"f32_weight", finite_or_null(updates.end.f32)},
            {"wanted", updates.wanted}}}};
}

std::string numbers_text(const ShowValues& values, const Surroundings&) {
  const double value = values.real("value");
  TextTable table({{"type"},
                   {"sign exponent mantissa"},
                   {"hex"},
                   {"stored", Align::kRight},
                   {"error", Align::kRight},
                   {"spacing", Align::kRight},
                   {"largest", Align::kRight},
                   {"smallest normal", Align::kRight}});
  for (const NumberFormat& format : number_formats()) {
    const uint32_t bits = encode(format, value);
    const BitFields fields = fields_of(format, bits);
    const double stored = decode(format, bits);
    const bool finite = std::isfinite(stored);
    table.add_row({std::string(format.name),
                   fmt::format("{} {} {}", fields.sign, fields.exponent, fields.mantissa),
                   fmt::format("{:0{}x}", bits, format.bits() / 4), number_text(stored),
                   finite ? fmt::format("{:.3g}", stored - value) : "-",
                   finite ? fmt::format("{:.3g}", spacing_at(format, bits)) : "-",
                   fmt::format("{:.4g}", format.largest()),
                   fmt::format("{:.3g}", format.smallest_normal())});
  }
  const Updates updates = updated(values);
  return fmt::format(
      "{} in each type\n\n{}\n{} of {:g} should make it {:g}\n"
      "  bf16 alone        {:g}; {} of them changed nothing\n"
      "  bf16 with master  {:g}\n  f32               {:g}\n",
      number_text(value), table.str(), count_of(values.whole("steps"), "update"),
      values.real("update"), updates.wanted, static_cast<float>(updates.end.alone),
      with_thousands(updates.lost), static_cast<float>(updates.end.copy), updates.end.f32);
}

}  // namespace

ShowTopic numbers_topic() {
  return {"numbers",
          "What becomes of a number in f32, bf16, f16 and FP8, bit by bit.",
          "--value 0.1 --update 1e-4 --steps 100",
          kNumbersFields,
          numbers_answer,
          for_terminals(numbers_text)};
}

}  // namespace tessera
