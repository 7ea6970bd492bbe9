"""From models to operator graphs: PyTorch modules on the meta device and ONNX files."""
