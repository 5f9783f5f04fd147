// What transforms that sample the picture anew have in common.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "decode/geometry.h"
#include "decode/interpolation.h"
#include "io/component/component.h"

namespace millrace::decode {

/// The fields `interpolation` and `fill`.
void list_sampling(FieldList& field, std::optional<Interpolation>& interpolation,
                   std::vector<int>& fill);
void list_fill(FieldList& field, std::vector<int>& fill);

/// The same of policies, whose operations are nearest unless told otherwise.
void list_policy(FieldList& field, Interpolation& interpolation, std::vector<int>& fill);

/// Throws: InvalidArgument.
void check_sampling(const std::optional<Interpolation>& interpolation);
void check_fill(const std::vector<int>& fill);

/// Requires: check_fill().
Fill fill_of(const std::vector<int>& levels);

}  // namespace millrace::decode
