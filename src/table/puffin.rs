//! Puffin: a container of blobs (Iceberg's specification), used for deletion vectors.
