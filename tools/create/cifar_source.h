// CIFAR's own binary files: CIFAR-10's data_batch_1.bin to _5 and test_batch.bin, CIFAR-100's
// train.bin and test.bin.
//
// Samples, in the files' order: an image of 32 x 32 ("png" unless asked otherwise) and its class
// number ("cls"); of CIFAR-100 the fine label, and the coarse one too ("coarse.cls"). The classes'
// names are those that lie beside the first file, where they do. Files are read and checked whole
// when the source is opened.
//
// Source: Krizhevsky, Learning Multiple Layers of Features from Tiny Images (2009), "binary
// version": a record is 1 label (CIFAR-100: 2, coarse and fine) and 3072 pixels, a plane a colour.
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

/// Throws: NotFound, Io; Corrupt, with the file and the record's offset: a size that is no number
/// of records, a label that there is not, files of both sets.
std::unique_ptr<SampleSource> open_cifar_source(const CifarOptions& options);

}  // namespace millrace::tools
