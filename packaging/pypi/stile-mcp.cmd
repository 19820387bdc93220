@"%~dp0stile.exe" %*
