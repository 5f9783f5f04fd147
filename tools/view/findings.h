// Findings: pictures of a set that someone should look at: copies of each other, those that look
// alike, and those that are unlike the others.
//
// Lifetime: all refer to the surveys' pictures. Threads: pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/view/set_survey.h"

namespace millrace::tools {

using PictureList = std::vector<const SurveyedPicture*>;

/// All of `surveys` that are kept as the one with the fewest keeps them.
PictureList pictures_of(std::span<SetSurvey> surveys);

/// Groups of two or more whose files have the same bytes.
std::vector<PictureList> same_files(const PictureList& pictures);
/// The groups whose pictures do not all have the same label; those without one are not looked at.
std::vector<PictureList> of_several_classes(std::vector<PictureList> groups);
/// Groups of two or more that look alike (picture_facts.h), of each file one; those without
/// contrast are left out. Each group is what a chain of alike pairs connects. Of more than 256 with
/// the same 16 bits of gradients, each is compared with its 32 neighbours.
std::vector<PictureList> look_alikes(const PictureList& pictures);
/// The groups with pictures of both sets.
std::vector<PictureList> in_both_sets(std::vector<PictureList> groups);

/// Pictures with something in common.
struct Outliers {
  std::string name;        ///< "dark"
  std::string definition;  ///< "Mean grey level below 24 of 255."
  PictureList pictures;    ///< the furthest out first
};
/// Dark, bright, empty, blurred and odd-sized ones.
std::vector<Outliers> outliers(const PictureList& pictures);

}  // namespace millrace::tools
