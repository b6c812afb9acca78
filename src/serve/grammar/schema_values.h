// The keywords of one place, read and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/grammar/numbers.h"
#include "serve/grammar/schema_source.h"

namespace tessera::serve::grammar {

// Refuses by name what is not supported, whatever the type.
void check_keywords(const SchemaPlace& place);

// The types that a schema names, or that its keywords are about; empty: all, or none where "type"
// is there.
std::vector<std::string> types_of(const SchemaPlace& place);

// A count, such as that of "minItems"; `otherwise` where it is absent.
int64_t count_at(const SchemaPlace& place, std::string_view keyword, int64_t otherwise);

NumberRange range_of(const SchemaPlace& place);

// The values of "enum" and "const" that have one of the types, and no other keyword beside them.
std::vector<const Json*> values_of(const SchemaPlace& place);

struct Property {
  std::string name;
  SchemaPlace schema;
  bool required = false;
};
struct Properties {
  std::vector<Property> list;
  std::optional<SchemaPlace> further;  // what other properties are
};
// In the order that they are written: as the schema names them, then what is only required.
Properties properties_of(const SchemaPlace& place);

struct Items {
  std::vector<SchemaPlace> first;   // one for each of the first items
  std::optional<SchemaPlace> rest;  // of all others; absent: there are none
  int64_t min = 0, max = -1;        // of all; max < 0: no limit
};
Items items_of(const SchemaPlace& place);

// Any value at all.
const Json& any_value();

}  // namespace tessera::serve::grammar
