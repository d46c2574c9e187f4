"""What commands share: options, output, help, interrupts."""
