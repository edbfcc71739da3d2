from mdtrace.commands import main

main()
