// A TOML file of constants with their provenance: one file of a catalogue, with the place of every
// mistake in it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/text/toml.h"
#include "cost/hardware/constant.h"
#include "spec/catalogue/catalogue_source.h"

namespace tessera {

// All functions throw ConfigError with the place, the key and what it must be.
class ConstantFile {
 public:
  explicit ConstantFile(const CatalogueSource& source);

  [[nodiscard]] const toml::table& table() const { return table_; }
  [[nodiscard]] const std::string& file_name() const { return file_name_; }
  [[nodiscard]] std::string at(const toml::source_region& region) const;

  void refuse_unknown(const toml::table& table, std::span<const std::string_view> known) const;

  // Where the table lacks the key, `target` stays.
  // 5, or [5, "vendor", "data sheet"].
  void read(const toml::table& table, std::string_view key, Constant& target) const;
  // [5, "bytes", "counted", "a sentence"], with this unit.
  void read_with_unit(const toml::table& table, std::string_view key, std::string_view unit,
                      Constant& target) const;
  void read(const toml::table& table, std::string_view key, std::string& target) const;
  void read(const toml::table& table, std::string_view key, bool& target) const;
  // From 0 to `most`.
  void read(const toml::table& table, std::string_view key, int64_t most, int64_t& target) const;

  [[nodiscard]] std::string text(const toml::node& node, std::string_view key) const;

 private:
  [[nodiscard]] double number(const toml::node& node, std::string_view key) const;
  [[nodiscard]] Provenance provenance(const toml::node& node, std::string_view key) const;

  std::string file_name_;
  toml::table table_;
};

}  // namespace tessera
