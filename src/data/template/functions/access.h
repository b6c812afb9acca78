// value.name, value[key] and value[a:b:c], as Jinja's sandbox gives them.
#pragma once

#include <optional>

#include "data/template/values/value.h"

namespace tessera::jinja {

// The attribute, else the item of that name, else an undefined value. A method that Python's type
// has and this does not is refused by name.
Value get_attribute(Budget& budget, const Value& value, const std::string& name);
// The item, else the attribute of that name, else an undefined value.
Value get_item(Budget& budget, const Value& value, const Value& key);

// Any of the three may be none.
Value get_slice(Budget& budget, const Value& value, const Value& start, const Value& stop,
                const Value& step);

// "a.b.0" of filters such as map(attribute=...): items one after the other. An integer is one too.
Value get_path(Budget& budget, const Value& value, const Value& path);

}  // namespace tessera::jinja
