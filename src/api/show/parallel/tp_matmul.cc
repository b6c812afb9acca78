#include "api/show/parallel/tp_matmul.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "api/show/parallel/split_product.h"
#include "api/show/values.h"
#include "base/error.h"
#include "base/text/text.h"
#include "compile/program/program.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ShowField::Kind;

constexpr ShowField kTpFields[] = {
    {.name = "split",
     .kind = Kind::kChoice,
     .fallback = "column",
     .help = "how B is cut; pair: one after the other; heads: an attention",
     .choices = "column|row|pair|heads"},
    {"ranks", Kind::kWhole, "2", "that share the product: 1, 2, 4 or 8", 1, 8},
    {"m", Kind::kWhole, "4", "rows of A: tokens", 1, 64},
    {"k", Kind::kWhole, "8", "columns of A and rows of B", 1, 64},
    {"n", Kind::kWhole, "8", "columns of B", 1, 64},
    {"heads", Kind::kWhole, "", "of heads: how many there are (default: at least 2, and one each)",
     1, 64},
};

ProductRequest product_request(const ShowValues& values) {
  ProductRequest request;
  const std::string split = values.text("split");
  request.split = split == "column" ? ProductSplit::kColumn
                  : split == "row"  ? ProductSplit::kRow
                  : split == "pair" ? ProductSplit::kPair
                                    : ProductSplit::kHeads;
  request.ranks = values.number("ranks");
  const bool power_of_two = (request.ranks & (request.ranks - 1)) == 0;
  if (!power_of_two) values.refuse("ranks", "1, 2, 4 or 8");
  request.m = values.whole("m");
  request.k = values.whole("k");
  request.n = values.whole("n");
  request.heads = values.has("heads") ? values.whole("heads") : std::max(2, request.ranks);
  return request;
}

std::string_view why_text(ProductSplit split) {
  switch (split) {
    case ProductSplit::kColumn:
      return "Every rank has all of A and some columns of B, so the columns of the result that it "
             "makes are finished. Nothing is sent forward. Backward each rank has only its part "
             "of the gradient of A: the parts are added up.";
    case ProductSplit::kRow:
      return "Every rank has some columns of A and the rows of B that go with them. Its product "
             "has "
             "the right size but only some of the terms: a partial sum. An all-reduce adds them "
             "up. Backward every rank needs the whole gradient, which all of them have already.";
    case ProductSplit::kPair:
      return "The first matrix is cut by columns and the second by rows, so what comes out of the "
             "first is just what the second needs, and GELU works on each number alone. One "
             "all-reduce at the end is enough; backward it is one at the beginning.";
    case ProductSplit::kHeads:
      return "Heads do not look at each other, so each rank computes some of them from beginning "
             "to end. The last matrix is cut by rows and gives partial sums: one all-reduce, as in "
             "the pair.";
  }
  return "";
}

Json rows_json(const SmallMatrix& matrix) {
  Json rows = Json::array();
  for (int64_t r = 0; r < matrix.rows; ++r) {
    Json row = Json::array();
    for (int64_t c = 0; c < matrix.cols; ++c) row.push_back(matrix.at(r, c));
    rows.push_back(std::move(row));
  }
  return rows;
}

// The whole from the parts of all ranks.
SmallMatrix assembled(const HeldMatrix& matrix) {
  SmallMatrix whole{matrix.whole.rows, matrix.whole.cols,
                    std::vector<double>(matrix.whole.values.size(), 0)};
  for (const HeldMatrix::Part& part : matrix.parts) {
    for (int64_t r = 0; r < part.values.rows; ++r) {
      for (int64_t c = 0; c < part.values.cols; ++c) {
        const int64_t row = part.first_row + r, col = part.first_col + c;
        whole.values[static_cast<size_t>(row * whole.cols + col)] = part.values.at(r, c);
      }
    }
  }
  return whole;
}

// Up to rounding: partial sums are added in another order.
bool is_equal(const SmallMatrix& a, const SmallMatrix& b) {
  constexpr double kRounding = 1e-9;
  return a.values.size() == b.values.size() &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), [](double x, double y) {
           return std::abs(x - y) <= kRounding * (1 + std::abs(x));
         });
}

// A cast, and what it would be of a layer that people train: 4,096 tokens, 4,096 wide, in bf16.
Json cast_json(const ProductCast& cast) {
  constexpr int64_t kTokens = 4096, kWidth = 4096, kBytes = 2;
  return {{"name", collective_name(cast.kind)},
          {"value", cast.value},
          {"elements", cast.elements},
          {"bytes", cast.elements * kBytes},
          {"bytes_formula", "tokens * width * 2 bytes"},
          {"example",
           {{"tokens", kTokens},
            {"width", kWidth},
            {"bytes", kTokens * kWidth * kBytes},
            {"text", fmt::format("1 x {} x {} x {} bytes = {}", with_thousands(kTokens),
                                 with_thousands(kWidth), kBytes,
                                 human_bytes(kTokens * kWidth * kBytes))}}}};
}

Json casts_json(const std::vector<ProductCast>& casts) {
  Json list = Json::array();
  for (const ProductCast& cast : casts) list.push_back(cast_json(cast));
  return list;
}

Json part_json(const HeldMatrix& matrix, size_t rank, bool with_values) {
  const HeldMatrix::Part& part = matrix.parts[rank];
  Json json = {{"rows", {part.first_row, part.end_row}}, {"cols", {part.first_col, part.end_col}}};
  if (with_values) json["values"] = rows_json(part.values);
  return json;
}

// What the rank has made by itself: the partial sum where there is one.
const HeldMatrix& own_result(const SplitProductResult& product) {
  const bool sums = !product.forward.empty();
  return product.matrix(sums ? "part" : "result");
}

Json shards_json(const SplitProductResult& product, int ranks) {
  Json shards = Json::array();
  const HeldMatrix& own = own_result(product);
  for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank) {
    Json shard = {{"rank", rank}};
    for (const HeldMatrix& matrix : product.matrices) {
      const bool made = matrix.name == "part" || matrix.name == "result";
      if (!made) shard[matrix.name] = part_json(matrix, rank, matrix.name == "hidden");
    }
    shard["result"] = rows_json(own.parts[rank].values);
    shard["rows"] = {own.parts[rank].first_row, own.parts[rank].end_row};
    shard["cols"] = {own.parts[rank].first_col, own.parts[rank].end_col};
    shard["partial"] = own.partial;
    shards.push_back(std::move(shard));
  }
  return shards;
}

Json tp_answer(const ShowValues& values, const Surroundings&) {
  const ProductRequest request = product_request(values);
  const SplitProductResult product = split_product(request);
  const SmallMatrix result = assembled(product.matrix("result"));
  Json json = {{"split", values.text("split")},
               {"ranks", request.ranks},
               {"m", request.m},
               {"k", request.k},
               {"n", request.n}};
  if (request.split == ProductSplit::kHeads) json["heads"] = request.heads;
  for (const HeldMatrix& matrix : product.matrices) {
    const bool made = matrix.name == "part" || matrix.name == "result";
    if (!made) json[matrix.name] = rows_json(matrix.whole);
  }
  json["c"] = rows_json(product.unsplit);
  json["shards"] = shards_json(product, request.ranks);
  json["forward"] = casts_json(product.forward);
  json["backward"] = casts_json(product.backward);
  json["result"] = rows_json(result);
  json["equal"] = is_equal(result, product.unsplit);
  json["collectives_forward"] = product.forward.size();
  json["collectives_backward"] = product.backward.size();
  Json types;
  for (const HeldMatrix& matrix : product.matrices) {
    types[matrix.name] = to_string(matrix.type.on(Axis::kTp));
  }
  json["placements"] = std::move(types);
  json["why"] = why_text(request.split);
  return json;
}

std::string matrix_text(const SmallMatrix& matrix, std::string_view indent) {
  const auto cell = [&](double value) { return fmt::format("{:.4g}", value); };
  size_t width = 0;
  for (const double value : matrix.values) width = std::max(width, cell(value).size());
  std::string text;
  for (int64_t r = 0; r < matrix.rows; ++r) {
    text += indent;
    for (int64_t c = 0; c < matrix.cols; ++c) {
      text += fmt::format("{:>{}}", cell(matrix.at(r, c)), width + 2);
    }
    text += '\n';
  }
  return text;
}

std::string casts_text(const std::vector<ProductCast>& casts) {
  if (casts.empty()) return "nothing is sent";
  std::vector<std::string> texts;
  for (const ProductCast& cast : casts) {
    texts.push_back(fmt::format("{} of {} elements", collective_name(cast.kind), cast.elements));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string tp_text(const ShowValues& values, const Surroundings&) {
  const ProductRequest request = product_request(values);
  const SplitProductResult product = split_product(request);
  std::string text = fmt::format("{} on {}\n{}\n", values.text("split"),
                                 count_of(request.ranks, "rank"), why_text(request.split));
  for (const std::string_view name : {"a", "b"}) {
    text += fmt::format("\n{}\n{}", name, matrix_text(product.matrix(name).whole, "  "));
  }
  const HeldMatrix& own = own_result(product);
  for (size_t rank = 0; rank < own.parts.size(); ++rank) {
    const HeldMatrix::Part& b = product.matrix("b").parts[rank];
    text += fmt::format("\nrank {}: rows {}-{} and columns {}-{} of b give {}\n{}", rank,
                        b.first_row, b.end_row - 1, b.first_col, b.end_col - 1,
                        own.partial ? "a partial sum" : "a part of the result",
                        matrix_text(own.parts[rank].values, "  "));
  }
  const SmallMatrix result = assembled(product.matrix("result"));
  text += fmt::format("\nresult, {} the product of one rank\n{}",
                      is_equal(result, product.unsplit) ? "equal to" : "not equal to",
                      matrix_text(result, "  "));
  text += fmt::format("\nforward: {}\nbackward: {}\n", casts_text(product.forward),
                      casts_text(product.backward));
  return text;
}

}  // namespace

ShowTopic tp_matmul_topic() {
  return {"tp_matmul",
          "A product of matrices that ranks share, with its numbers and collectives.",
          "--split row --ranks 4",
          kTpFields,
          tp_answer,
          for_terminals(tp_text)};
}

}  // namespace tessera
