// CIFAR's binary files: CIFAR-10's data_batch_1.bin to _5 and test_batch.bin, CIFAR-100's train.bin
// and test.bin.
//
// Samples, in the files' order: an image of 32 x 32 ("png" by default) and its class number
// ("cls"); for CIFAR-100 the fine label, and the coarse one as "coarse.cls". The class names are
// read from the file next to the first one, if it exists. All files are read and checked when the
// source is opened.
//
// Source: Krizhevsky, Learning Multiple Layers of Features from Tiny Images (2009), "binary
// version": a record is 1 label (CIFAR-100: 2, coarse and fine) and 3072 pixels, by plane.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/create/image_encoding.h"
#include "tools/create/sample_source.h"

namespace millrace::tools {

struct CifarOptions {
  std::vector<std::string> files = {};
  ImageEncoding encoding = {};
  NewSize size = {};
};

/// Throws: NotFound, Io; Corrupt, with the file and the record's offset: a size that is not a
/// multiple of a record, an invalid label, files of both sets.
std::unique_ptr<SampleSource> open_cifar_source(const CifarOptions& options);

}  // namespace millrace::tools
